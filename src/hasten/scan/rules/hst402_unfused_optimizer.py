"""An Adam that steps by several kernels instead of one."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Fix
from hasten.scan.arguments import add_keyword
from hasten.scan.edits import fix_of
from hasten.scan.heat import Heat
from hasten.scan.known_devices import CUDA, kinds_of_devices
from hasten.scan.look import Look, argument, called_name, keyword
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

BY_PARAMETER = ("transformers.", "pytorch_transformers.", "pytorch_pretrained_bert.")
"""Libraries whose AdamW goes over parameters in Python; torch's own takes them by lists."""
TUNED = re.compile(r"\b(autocast|GradScaler|fp16|bf16|bfloat16|use_amp|torch\.compile)\b")
"""What is said in a file that trains on a GPU and has been made faster: there a step of the
optimizer is a part that shows. Elsewhere it hardly ever is."""
SURE = "Steps in one kernel, which rounds otherwise."
NOT_SURE = (
    "Give `fused=True` where the parameters lie on a GPU; on a CPU torch has it since 2.4, and not"
    " every other device does."
)
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
    calls = ("Adam", "AdamW")
    least = Heat.ONCE
    severity = "low"
    silent_in = ("tests/", "testing/", "test_*.py", "conftest.py")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

net = net.cuda()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.1)  # !
scaler = torch.amp.GradScaler()
""",
        """\
from torch.optim import Adam

class Trainer:
    def __init__(self, model, use_amp=True, optimizer_fn=Adam, optimizer_params=None):
        self.optimizer = optimizer_fn(model.parameters(), **optimizer_params)
        self.other = Adam(model.parameters())  # !
        self.one = Adam([self.temperature], lr=1e-3)
""",
        """\
import torch

optimizer = torch.optim.Adam(net.parameters(), fused=True)
optimizer = torch.optim.Adam(net.parameters(), **settings)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
optimizer = apex.optimizers.Adam(net.parameters())
net = torch.compile(net)
""",
        """\
import torch

optimizer = torch.optim.Adam(small.parameters(), lr=1e-3)
""",
        """\
import torch
from transformers import AdamW

def train(model, groups):
    return AdamW(groups, lr=1e-5, eps=1e-8)  # !
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        if any(keyword(call, each) is not None for each in SETTLED) or _is_of_few(call):
            return
        if look.dotted(call.func).startswith(BY_PARAMETER):
            said = f"`{called_name(call)}` of this library steps one parameter after the other"
            yield Found(call, said)
        if TUNED.search(look.text) and _is_plain(call, look):
            message = f"`{called_name(call)}` is made without `fused=True`"
            yield Found(call, message, _fix(call, look))


def _fix(call: ast.Call, look: Look) -> Fix | None:
    """Made only where nothing but CUDA comes into question: elsewhere it may be an error."""
    if kinds_of_devices(look) != CUDA:
        return Fix(safety="display", about=NOT_SURE)
    return fix_of("unsafe", SURE, add_keyword(look.lines, call, "fused", "True"))


def _is_of_few(call: ast.Call) -> bool:
    """``Adam([log_alpha])``: with a handful of tensors there is nothing to gain."""
    given = argument(call, 0, "params")
    return isinstance(given, ast.List) and not any(
        isinstance(each, ast.Dict | ast.Starred) for each in given.elts
    )


def _is_plain(call: ast.Call, look: Look) -> bool:
    """Whether it is torch's own, with all of its settings in sight."""
    is_open = any(word.arg is None for word in call.keywords)
    return look.dotted(call.func).startswith("torch.optim") and not is_open
