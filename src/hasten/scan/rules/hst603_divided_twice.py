"""An accumulated loss that is divided twice."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, keyword, names_in, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import last_name

ACCUMULATES = re.compile(r"accum", re.IGNORECASE)
COUNT = "gradient_accumulation_steps"


class DividedTwice(Rule):
    code = "HST603"
    name = "divided-twice"
    why = (
        "The gradient of an accumulated step becomes smaller by the number of batches once more"
        " than it should: training is slower without a word."
    )
    instead = "Divide once. `Accelerator(gradient_accumulation_steps=...)` divides by itself."
    risk = "training changes, as it was meant"
    verify = "Compare the gradients of a window with those of one large batch."
    calls = ("backward", "Accelerator")
    least = Heat.ONCE
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from accelerate import Accelerator

def train(model, loader, optimizer, accum):
    accelerator = Accelerator(gradient_accumulation_steps=accum)
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = model(x, y)
            loss = loss / accum
            accelerator.backward(loss)  # !
            optimizer.step()
            optimizer.zero_grad()
""",
        """\
import torch

def train(model, loader, optimizer, accum):
    for i, (x, y) in enumerate(loader):
        loss = model(x, y) / accum
        (loss / accum).backward()  # !
        if (i + 1) % accum == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
        """\
import torch
from accelerate import Accelerator

def train(model, loader, optimizer, accum):
    accelerator = Accelerator()
    for _ in range(accum):
        loss = model(next(loader))
        loss = loss / accum
        accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
""",
        """\
import torch
from accelerate import Accelerator

def train(model, loader, optimizer, accum):
    accelerator = Accelerator(gradient_accumulation_steps=accum)
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = model(x, y) / x.shape[0]
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        on = receiver(site.node)
        if on is None:
            return
        by_itself = bool(site.node.args) and "accelerator" in last_name(on).lower()
        loss = site.node.args[0] if by_itself else on
        times = _divisions(loss, site, look) + (by_itself and _accelerator_divides(look))
        if times > 1:
            yield Found(site.node, "the loss is divided twice by the number of batches")


def _divisions(loss: ast.expr, site: Site, look: Look) -> int:
    """By the size of the window: of the expression itself and of the name in it."""
    times = 0
    if isinstance(loss, ast.BinOp):
        times += _is_division(loss)
        loss = loss.left
    if isinstance(loss, ast.Name):
        binding, _ = look.values.definition(loss.id, loss.lineno, site.function)
        times += binding is not None and binding.value is not None and _is_division(binding.value)
    return times


def _is_division(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Div)
        and any(ACCUMULATES.search(each) for each in names_in(node.right))
    )


def _accelerator_divides(look: Look) -> bool:
    return any(
        keyword(each.node, COUNT) is not None for each in look.outline.calls.get("Accelerator", ())
    )
