"""Training in half precision without scaling the loss."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, argument, is_constant
from hasten.scan.outline import Site
from hasten.scan.precision import dtype_of, is_autocast, is_switched_off
from hasten.scan.rule import Found, Rule
from hasten.scan.training import backwards

HALF = ("torch.float16", "torch.half")
ANY = ("", *HALF)
"""Without a dtype it is half precision on CUDA."""


class HalfWithoutScaler(Rule):
    code = "HST606"
    name = "half-without-scaler"
    why = "In half precision small gradients become zero unless the loss is scaled up before."
    instead = "Use `dtype=torch.bfloat16`, or a `torch.amp.GradScaler` around the backward pass."
    risk = "training changes: gradients that were lost are no longer"
    verify = "Count the zeros in the gradients of both versions."
    calls = ("autocast",)
    least = Heat.ONCE
    severity = "high"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch.cuda.amp import autocast

def train(model, loader, optimizer, amp):
    for x, y in loader:
        optimizer.zero_grad()
        with autocast(enabled=amp):  # !
            loss = model(x, y)
        loss.backward()
        optimizer.step()
""",
        """\
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast(device_type="cuda", dtype=torch.float16):  # !
            loss = model(x, y)
        loss.backward()
        optimizer.step()
""",
        """\
import contextlib
import torch

class Trainer:
    def __init__(self, model, amp):
        self.context = torch.autocast("cuda") if amp else contextlib.nullcontext()  # !

    def train_step(self, x):
        with self.context:
            loss = self.model(x)
        loss.backward()
        self.optimizer.step()
""",
        """\
import torch

class Trainer:
    def train_step(self, x):
        with torch.cuda.amp.autocast(enabled=self.optim.amp):
            loss = self.model(x)
        self.optim.backward(loss)
        self.optim.step()
""",
        """\
import torch

def train(model, loader, optimizer, amp_dtype):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x, y)
        with torch.autocast("cuda", dtype=amp_dtype):
            loss += model(x, y)
        with torch.autocast("cpu"):
            loss += model(x, y)
        with torch.autocast("cuda", enabled=False):
            loss += model(x, y)
        loss.backward()
        optimizer.step()
""",
        """\
import torch

def evaluate(model, loader):
    with torch.no_grad(), torch.autocast("cuda"):
        return [model(x) for x in loader]
""",
        """\
import torch

def train(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        with torch.autocast("cuda"):
            loss = model(x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call = site.node
        if not isinstance(site.statement, ast.With | ast.Assign) or not is_autocast(call, look):
            return
        if is_switched_off(call, look) or is_constant(argument(call, 0, "device_type"), "cpu"):
            return
        if dtype_of(call, site.function, look) not in ANY or look.without_grad(site):
            return
        if "scaler" not in look.text.lower() and _is_trained_with(site, look):
            yield Found(call, "half precision without a gradient scaler")


def _is_trained_with(site: Site, look: Look) -> bool:
    """Whether there is a backward pass of the loss itself, not one that an optimizer or an engine
    is asked for, which may scale. A context that is kept is entered by other methods."""
    functions = [site.function]
    if isinstance(site.statement, ast.Assign) and site.function.owner is not None:
        functions = [*site.function.owner.methods.values()]
    return any(not each.node.args for function in functions for each in backwards(function, look))
