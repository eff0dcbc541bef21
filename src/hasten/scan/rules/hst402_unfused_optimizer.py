"""An Adam that steps by several kernels instead of one."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.edits import add_keyword, fix_of
from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, keyword
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

CHOSEN_LATER = (
    "optimizer_fn", "optimizer_class", "optimizer_cls", "optim_fn", "optim_class", "optim_cls",
    "optimizer_factory", "opt_class", "opt_cls", "opt_fn",
)  # fmt: skip
"""What an optimizer's class is called that is passed in."""
PARAMETERS = re.compile(r"param|layers|weights")
SETTLED = ("fused", "foreach", "capturable", "differentiable")


class UnfusedOptimizer(Rule):
    code = "HST402"
    name = "unfused-optimizer"
    why = (
        "Without `fused=True` a step of Adam is a dozen kernels over all parameters, launched from"
        " Python every time."
    )
    instead = "Pass `fused=True` where the parameters are on a GPU (or on a CPU, since torch 2.4)."
    risk = "rounding: sums are taken in another order"
    effort = "a minute"
    calls = ("Adam", "AdamW", *CHOSEN_LATER)
    least = Heat.ONCE
    severity = "low"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.1)  # !
""",
        """\
from torch.optim import Adam

class Trainer:
    def __init__(self, model, optimizer_fn=Adam, optimizer_params=None):
        self.optimizer = optimizer_fn(model.parameters(), **optimizer_params)  # !
        self.other = Adam(model.parameters())  # !
""",
        """\
import torch

optimizer = torch.optim.Adam(net.parameters(), fused=True)
optimizer = torch.optim.Adam(net.parameters(), **settings)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
optimizer = apex.optimizers.Adam(net.parameters())
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        name = called_name(call)
        if any(keyword(call, each) is not None for each in SETTLED):
            return
        message = f"`{name}` is made without `fused=True`"
        if name in CHOSEN_LATER:
            if _is_passed_in(call, look):
                yield Found(call, message)
        elif _is_plain(call, look):
            about = "Steps in one kernel, which rounds otherwise."
            edit = add_keyword(look.lines, call, "fused", "True")
            yield Found(call, message, fix_of("unsafe", about, edit))


def _is_passed_in(call: ast.Call, look: Look) -> bool:
    return bool(call.args) and bool(PARAMETERS.search(look.source(call.args[0])))


def _is_plain(call: ast.Call, look: Look) -> bool:
    """Whether it is torch's own, with all of its settings in sight."""
    is_open = any(word.arg is None for word in call.keywords)
    return look.dotted(call.func).startswith("torch.optim") and not is_open
