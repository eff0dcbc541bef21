"""Accumulation whose loss is never divided."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import last_name, optimizer_steps, window_of

DIVIDES_ITSELF = re.compile(r"accelerator|fabric|engine|deepspeed", re.IGNORECASE)


class UndividedAccumulation(Rule):
    code = "HST602"
    name = "undivided-accumulation"
    why = (
        "Gradients add up: without a division a window of k batches steps with k times the"
        " gradient, clipping bites k times as hard, and the learning rate means something else."
    )
    instead = "Divide the loss by the number of batches in the window before `backward()`."
    risk = "training changes, as it was meant"
    verify = "Compare the gradients of a window with those of one large batch."
    calls = ("backward",)
    least = Heat.ONCE
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer, accumulation_steps):
    for i, (x, y) in enumerate(loader):
        loss = model(x, y)
        loss.backward()  # !
        if (i + 1) % accumulation_steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
        """\
import torch

def train(model, loader, optimizer, accumulation_steps):
    for i, (x, y) in enumerate(loader):
        loss = model(x, y)
        loss = loss / accumulation_steps
        loss.backward()
        if (i + 1) % accumulation_steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
        """\
import torch

def train(model, loader, optimizer, k):
    for i, (x, y) in enumerate(loader):
        loss = model(x, y)
        loss /= k
        loss.backward()
        if (i + 1) % k == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
        """\
import torch

def train(accelerator, model, loader, optimizer, k):
    for i, (x, y) in enumerate(loader):
        accelerator.backward(model(x, y))
        if (i + 1) % k == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        on = receiver(site.node)
        if site.loop is None or on is None or DIVIDES_ITSELF.search(last_name(on)):
            return
        counts = [
            window.count
            for step in optimizer_steps(site.function, look)
            if (window := window_of(step, look)) and window.loop is site.loop
        ]
        if counts and not any(_divides(each, look) for each in counts):
            yield Found(site.node, f"the loss is not divided by `{look.source(counts[0])}`")


def _divides(count: ast.expr, look: Look) -> bool:
    """Whether anything in the file does: a loss may be divided in a function of its own."""
    name = re.escape(look.source(count).rpartition(".")[2])
    division = rf"/=?\s*\(?\s*(\w+\()?\s*([\w.]+\.)?{name}\b|div_?\(.*{name}"
    return re.search(division, look.text) is not None
