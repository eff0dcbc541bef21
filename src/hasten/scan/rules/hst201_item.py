"""``.item()`` in a hot place."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class Item(Rule):
    code = "HST201"
    name = "item-in-hot-loop"
    why = (
        "Reading a number from the device waits until everything before it is computed, and the"
        " device has nothing to do until the next launch."
    )
    instead = "Add up on the device, `total += loss.detach()`, and read it once after the loop."
    calls = ("item",)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer):
    total = 0.0
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        total += loss.item()  # !
    return total
""",
        """\
import torch

def train(model, loader, optimizer):
    total = torch.zeros((), device="cuda")
    for step, (x, y) in enumerate(loader):
        loss = model(x, y)
        loss.backward()
        total += loss.detach()
        if step % 100 == 0:
            print(loss.item())
    return total.item()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        read = receiver(site.node)
        value = look.value(read, site)
        if site.node.args or value.kind in ("array", "frame") or value.where == "host":
            return
        if read is not None:
            yield Found(site.node, f"`{look.source(read)}.item()` waits for the device")
