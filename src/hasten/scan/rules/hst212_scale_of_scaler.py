"""Reading the scale of a gradient scaler each step."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class ScaleOfScaler(Rule):
    code = "HST212"
    name = "scale-of-scaler"
    why = "The scale lies on the device: reading it waits until the step is computed."
    instead = (
        "Compare only every so many steps, or call the scheduler anyway: a scaler that skips a step"
        " does so rarely."
    )
    risk = "the learning rate moves on after a step that was skipped"
    calls = ("get_scale",)
    waits = True
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer, scaler):
    for x, y in loader:
        scaler.scale(model(x, y)).backward()
        before = scaler.get_scale()  # !
        scaler.step(optimizer)
        scaler.update()
        skipped = scaler.get_scale() != before  # !
""",
        """\
import torch

def train(model, loader, optimizer, scaler):
    for step, (x, y) in enumerate(loader):
        scaler.scale(model(x, y)).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 100 == 0:
            print(scaler.get_scale())
    return scaler.get_scale()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if not site.node.args:
            yield Found(site.node, f"`{look.source(site.node)}` waits for the device")
