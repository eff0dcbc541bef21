"""A gradient scaler that is made anew again and again."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Function, Site
from hasten.scan.rule import Found, Rule


class ScalerPerEpoch(Rule):
    code = "HST605"
    name = "scaler-per-epoch"
    why = (
        "A new scaler starts at the highest scale: its first steps overflow and are skipped until"
        " it has found the right one again."
    )
    instead = "Make one scaler beside the optimizer, and save its state with it."
    effort = "a minute"
    risk = "fewer steps are skipped"
    verify = "Print `scaler.get_scale()` at the first steps of each epoch."
    calls = ("GradScaler",)
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer, epochs):
    for epoch in range(epochs):
        scaler = torch.amp.GradScaler("cuda")  # !
        for x, y in loader:
            scaler.scale(model(x, y)).backward()
            scaler.step(optimizer)
            scaler.update()
""",
        """\
import torch

def train_one_epoch(model, loader, optimizer):
    scaler = torch.cuda.amp.GradScaler()  # !
    for x, y in loader:
        scaler.scale(model(x, y)).backward()
        scaler.step(optimizer)
        scaler.update()
""",
        """\
import torch
from torch.cuda.amp import GradScaler

def work(model, loader, optimizer):
    scaler = GradScaler()  # !
    for x, y in loader:
        scaler.scale(model(x, y)).backward()
        scaler.step(optimizer)
        scaler.update()

def main(model, loader, optimizer, epochs):
    for epoch in range(epochs):
        work(model, loader, optimizer)
""",
        """\
import torch

class Trainer:
    def __init__(self, epochs):
        self.scaler = torch.amp.GradScaler("cuda")

def train(model, loader, optimizer, epochs, folds):
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(epochs):
        for x, y in loader:
            scaler.scale(model(x, y)).backward()
            scaler.step(optimizer)
            scaler.update()

def cross(model, folds):
    for fold in folds:
        scaler = torch.amp.GradScaler("cuda")
        Trainer(3)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        function = site.function
        name = function.last_name
        if (
            _in_known_loop(site, look)
            or name.endswith(("_epoch", "_step", "Epoch"))
            or (name and name != "__init__" and _is_called_in_loop(function, look))
        ):
            yield Found(site.node, "a scaler that is made anew forgets its scale")


def _in_known_loop(site: Site, look: Look) -> bool:
    """In one of epochs or steps."""
    return any(look.heats.kind_of(loop) is not None for loop in look.loops(site))


def _is_called_in_loop(function: Function, look: Look) -> bool:
    return any(
        _in_known_loop(call, look)
        for caller in look.outline.functions
        if caller is not function
        for call in look.calls_in(caller, function.last_name)
    )
