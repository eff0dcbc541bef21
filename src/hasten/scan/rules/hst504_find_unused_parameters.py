"""``find_unused_parameters=True``."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, is_constant, keyword
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class FindUnusedParameters(Rule):
    code = "HST504"
    name = "find-unused-parameters"
    why = (
        "At every step the whole graph of autograd is searched for parameters without a gradient,"
        " though mostly there are none."
    )
    instead = (
        "Leave it out; freeze what is unused, or set `static_graph=True` where it is always so."
    )
    risk = "where some parameters really get no gradient the first step raises an error"
    verify = "Run some steps on two ranks: torch says so where a parameter is unused."
    calls = (
        "DistributedDataParallel",
        "DDP",
        "DDPStrategy",
        "DDPPlugin",
        "DistributedDataParallelKwargs",
        "MMDistributedDataParallel",
        "Trainer",
        "TrainingArguments",
    )
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
from torch.nn.parallel import DistributedDataParallel as DDP

def build(model, rank):
    return DDP(model, device_ids=[rank], find_unused_parameters=True)  # !
""",
        """\
import torch
from accelerate import Accelerator, DistributedDataParallelKwargs

options = DistributedDataParallelKwargs(find_unused_parameters=True)  # !
accelerator = Accelerator(kwargs_handlers=[options])
""",
        """\
import torch
import lightning

trainer = lightning.Trainer(strategy="ddp_find_unused_parameters_true")  # !
""",
        """\
import torch

def build(model, rank, unused):
    model = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=unused)
    return torch.nn.parallel.DistributedDataParallel(
        model, device_ids=[rank], find_unused_parameters=False
    )
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        for name in ("find_unused_parameters", "ddp_find_unused_parameters"):
            value = keyword(site.node, name)
            if is_constant(value, True):
                yield Found(value or site.node, f"`{name}=True` searches the graph at every step")
        strategy = keyword(site.node, "strategy")
        if (
            isinstance(strategy, ast.Constant)
            and isinstance(strategy.value, str)
            and strategy.value.endswith("find_unused_parameters_true")
        ):
            yield Found(strategy, f"`{strategy.value}` searches the graph at every step")
