"""A record of a whole run that keeps tensors."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.inference import DROPS
from hasten.scan.look import Look, called_name, receiver
from hasten.scan.outline import Class, Site
from hasten.scan.rule import Found, Rule

HISTORY = re.compile(r"histor|loss|record|track|trace|metric|curve|(^|_)(logs?|stats?)(_|$)", re.I)
EMPTIES = ("clear", "pop", "popleft", "reset")


class TensorsInHistory(Rule):
    code = "HST319"
    name = "tensors-in-history"
    why = (
        "A record that nothing ever empties keeps every tensor for the whole run, and with it the"
        " graph that made it: memory grows with every step."
    )
    instead = "Keep `loss.detach()`, and turn a whole epoch's into numbers at once."
    effort = "a minute"
    calls = ("append",)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Trainer:
    def __init__(self):
        self.history = {"loss": []}
        self.losses = []

    def train_step(self, x, y):
        loss = self.criterion(self.model(x), y)
        self.losses.append(loss)  # !
        self.history["loss"].append(loss)  # !
        loss.backward()
        self.optimizer.step()
""",
        """\
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.metric_trace = []

    def forward(self, x, target):
        error = torch.nn.functional.mse_loss(self.layer(x), target)
        self.metric_trace.append((error, error.sqrt()))  # !
        return error
""",
        """\
import torch
from collections import deque

class Trainer:
    def __init__(self):
        self.history, self.epoch_losses = [], []
        self.records = deque(maxlen=100)

    def train_step(self, x, y):
        loss = self.criterion(self.model(x), y)
        loss.backward()
        self.history.append(loss.detach())
        self.history.append(loss.item())
        self.epoch_losses.append(loss)
        self.records.append(loss)

    def on_epoch_end(self):
        self.epoch_losses.clear()

class Model(torch.nn.Module):
    def forward(self, x):
        self.traces = []
        for layer in self.layers:
            x = layer(x)
            self.traces.append(x)
        return x
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        name, owner = _holder(receiver(site.node)), site.function.owner
        if owner is None or not name or not HISTORY.search(name) or not site.node.args:
            return
        kept = site.node.args[0]
        if look.without_grad(site) or not any(
            _carries_graph(each, site, look) for each in _parts(kept)
        ):
            return
        if not _is_emptied(name, owner) and not _is_bounded(name, owner):
            yield Found(site.node, f"`self.{name}` keeps `{look.source(kept)}` for the whole run")


def _holder(node: ast.expr | None) -> str:
    """``history`` of ``self.history["loss"]``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
    return ""


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple | ast.List) else [node]


def _carries_graph(node: ast.expr, site: Site, look: Look) -> bool:
    made = look.values.given(node, site.function) or node
    if any(called_name(each) in DROPS for each in (node, made)):
        return False
    return look.is_on_device(node, site)


def _is_emptied(name: str, owner: Class) -> bool:
    """Whether a method gives it another value or takes things out."""
    if any(function.last_name != "__init__" for _, function in owner.attributes.get(name, ())):
        return True
    return any(
        each.called in EMPTIES and _holder(receiver(each.node)) == name
        for method in owner.methods.values()
        for each in method.calls
    )


def _is_bounded(name: str, owner: Class) -> bool:
    return any(
        called_name(binding.value) == "deque" for binding, _ in owner.attributes.get(name, ())
    )
