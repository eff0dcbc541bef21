"""Arguments of a DataLoader that cannot be together."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, argument, is_constant, keyword
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class ImpossibleLoader(Rule):
    code = "HST640"
    name = "impossible-loader"
    why = "DataLoader refuses these arguments, so that this optimization never ran."
    instead = (
        "Give `persistent_workers` and `prefetch_factor` together with workers only; `non_blocking`"
        " belongs to `.to(device)`; shuffling belongs to the sampler where there is one."
    )
    effort = "a minute"
    verify = "Make the loader."
    calls = ("DataLoader",)
    least = Heat.ONCE
    severity = "high"
    examples: ClassVar[tuple[str, ...]] = (
        """\
from torch.utils.data import DataLoader

def load(dataset):
    return DataLoader(dataset, batch_size=32, num_workers=4, non_blocking=True)  # !
""",
        """\
import torch

WORKERS = 0

def load(dataset):
    one = torch.utils.data.DataLoader(dataset, num_workers=0, persistent_workers=True)  # !
    return torch.utils.data.DataLoader(dataset, num_workers=WORKERS, prefetch_factor=4)  # !
""",
        """\
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

def load(dataset):
    sampler = RandomSampler(dataset)
    batches = BatchSampler(sampler, 8)
    one = DataLoader(dataset, sampler=sampler, shuffle=True)  # !
    return DataLoader(dataset, batch_size=8, batch_sampler=batches)  # !
""",
        """\
from torch.utils.data import DataLoader

def load(dataset, workers, sampler, options):
    one = DataLoader(dataset, num_workers=workers, persistent_workers=workers > 0)
    two = DataLoader(dataset, num_workers=workers, persistent_workers=True)
    three = DataLoader(dataset, persistent_workers=True, **options)
    four = DataLoader(dataset, sampler=sampler, shuffle=False, prefetch_factor=None)
    five = DataLoader(dataset, sampler=sampler, shuffle=True)
    return DataLoader(dataset, sampler=sampler, shuffle=sampler is None)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call = site.node
        refused = _refused(site, look) or (_has_no_workers(site, look) and _needs_workers(call))
        if refused:
            yield Found(call, f"DataLoader refuses `{refused}` here")


def _refused(site: Site, look: Look) -> str:
    call = site.node
    if keyword(call, "non_blocking") is not None:
        return "non_blocking"
    shuffles = is_constant(argument(call, 2, "shuffle"), True)
    if shuffles and _is_given(argument(call, 3, "sampler"), site, look):
        return "shuffle"
    if _is_given(argument(call, 4, "batch_sampler"), site, look):
        size = argument(call, 1, "batch_size")
        if shuffles or (size is not None and not is_constant(size, 1)):
            return "batch_sampler"
    return ""


def _is_given(node: ast.expr | None, site: Site, look: Look) -> bool:
    """For sure: a name may stand for None."""
    return isinstance(look.values.given(node, site.function), ast.Call)


def _has_no_workers(site: Site, look: Look) -> bool:
    workers = argument(site.node, 5, "num_workers")
    if workers is None:
        return all(word.arg is not None for word in site.node.keywords) and len(site.node.args) < 6
    return is_constant(look.values.given(workers, site.function), 0)


def _needs_workers(call: ast.Call) -> str:
    if is_constant(keyword(call, "persistent_workers"), True):
        return "persistent_workers"
    ahead = keyword(call, "prefetch_factor")
    given = isinstance(ahead, ast.Constant) and ahead.value is not None
    return "prefetch_factor" if given else ""
