"""A backward pass under autocast."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.precision import autocasts_over
from hasten.scan.rule import Found, Rule


class BackwardUnderAutocast(Rule):
    code = "HST607"
    name = "backward-under-autocast"
    why = (
        "Backward operations run in the types of the forward ones already; under autocast what"
        " hooks and custom functions do is cast once more, which torch advises against."
    )
    instead = "End the `with` after the loss, and call `backward()` outside of it."
    effort = "a minute"
    calls = ("backward", "manual_backward")
    least = Heat.ONCE
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer, scaler):
    for x, y in loader:
        with torch.autocast("cuda"):
            loss = model(x, y)
            scaler.scale(loss).backward()  # !
        scaler.step(optimizer)
        scaler.update()
""",
        """\
import torch

@torch.autocast("cuda", dtype=torch.bfloat16)
def train(model, loader, optimizer):
    for x, y in loader:
        model(x, y).backward()  # !
        optimizer.step()
        optimizer.zero_grad()
""",
        """\
import torch

def train(accelerator, model, loader, optimizer):
    for x, y in loader:
        with accelerator.autocast():
            loss = model(x, y)
        accelerator.backward(loss)
        with torch.autocast("cuda", enabled=False):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if any(autocasts_over(site, look)):
            yield Found(site.node, "the backward pass runs under autocast")
