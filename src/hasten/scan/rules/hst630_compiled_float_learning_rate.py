"""A compiled optimizer's step with a learning rate that is a plain number."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, argument, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class CompiledFloatLearningRate(Rule):
    code = "HST630"
    name = "compiled-float-learning-rate"
    why = (
        "A number is compiled in: each time the schedule changes it the step is compiled anew,"
        " until the limit is reached and it runs uncompiled."
    )
    instead = "Give the optimizer `lr=torch.tensor(...)`, which a schedule then changes in place."
    verify = "Run with `TORCH_LOGS=recompiles`."
    calls = ("compile",)
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    step = torch.compile(optimizer.step)  # !
    for x, y in loader:
        model(x, y).backward()
        step()
        schedule.step()
        optimizer.zero_grad()
""",
        """\
import torch

def train(model, loader):
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(1e-3))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    step = torch.compile(optimizer.step)
    net = torch.compile(model.step)
    for x, y in loader:
        net(x, y).backward()
        step()
        schedule.step()
        optimizer.zero_grad()
""",
        """\
import torch

def train(model, loader):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = torch.compile(optimizer.step)
    for x, y in loader:
        model(x, y).backward()
        step()
        optimizer.zero_grad()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if look.dotted(site.node.func) != "torch.compile" or not site.node.args:
            return
        step = site.node.args[0]
        if not isinstance(step, ast.Attribute) or step.attr != "step":
            return
        if look.value(step.value, site).kind != "optimizer" or "lr_scheduler" not in look.text:
            return
        made = look.values.given(step.value, site.function)
        rate = argument(made, 1, "lr") if isinstance(made, ast.Call) else None
        if isinstance(made, ast.Call) and not _is_tensor(rate, site, look):
            yield Found(site.node, "every new learning rate compiles this step anew")


def _is_tensor(rate: ast.expr | None, site: Site, look: Look) -> bool:
    made = look.values.given(rate, site.function)
    return isinstance(made, ast.Call) and called_name(made) in ("tensor", "as_tensor", "full")
