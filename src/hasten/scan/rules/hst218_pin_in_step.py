"""Pinning memory in the loop."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class PinInStep(Rule):
    code = "HST218"
    name = "pin-in-step"
    why = (
        "Pinning copies the batch into memory that is fetched from the system, while everything"
        " waits: with the copy to the device it can take twice as long as a plain `.to(device)`."
    )
    instead = "Let the loader pin in its own thread, `pin_memory=True`, or keep one pinned buffer."
    calls = ("pin_memory",)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer, device):
    for x, y in loader:
        x = x.pin_memory().to(device, non_blocking=True)  # !
        model(x, y).backward()
        optimizer.step()
""",
        """\
import torch

class Batch:
    def __init__(self, rows):
        self.rows = rows

    def pin_memory(self):
        self.rows = self.rows.pin_memory()
        return self

def collate(batch):
    return torch.stack(batch).pin_memory()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if look.prepares_data(site) or site.function.last_name == "pin_memory":
            return
        if look.value(receiver(site.node), site).kind in ("tensor", "batch"):
            yield Found(site.node, f"`{look.source(site.node)}` copies while everything waits")
