"""``.item()`` in a hot place."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, is_said_above, receiver
from hasten.scan.outline import Site
from hasten.scan.read_once import read_after_loop
from hasten.scan.reads import before_copies, is_for_environment
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import is_element


class Item(Rule):
    code = "HST201"
    name = "item-in-hot-loop"
    why = (
        "Reading a number from the device waits until everything before it is computed, and the"
        " device has nothing to do until the next launch."
    )
    instead = (
        "Keep the number on the device and read it after the loop, all at once: for a sum `total +="
        " loss.detach().double()`, which rounds as Python does, for elements `x.tolist()` before"
        " the loop. What decides whether to go on can be asked every so many turns."
    )
    risk = "none in sums and lists; what is asked more seldom goes on for some turns more"
    calls = ("item",)
    waits = True
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

def update(model, batch):
    loss, aligned = model(batch)
    loss.backward()
    return dict(
        loss=loss.item(),  # !
        aligned=aligned.item(),
    )
""",
        """\
import torch

def sample(model, times):
    x = torch.randn(4, 3, device="cuda")
    for now, after in times:
        now, after = map(lambda t: t.item(), (now, after))  # !
        x = model(x, now) * after
    return x
""",
        """\
import torch

def evaluate(model, loader):
    right = 0
    with torch.no_grad():
        for x, y in loader:
            right += (model(x).argmax(1) == y).sum().item()  # !
            right += [loss.cpu().numpy().item() for loss in model.losses(x)][0]  # !
    return right
""",
        """\
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        loss, rows = 0.0, 0
        whole = 0
        for part in model(x, y):
            whole += part.mean()
            rows += len(x)
        whole.backward()
        optimizer.step()
        print(rows, whole.item())  # !
        plot_rows(model(x))

def plot_rows(rows):
    canvas.line([each.sum().item() for each in rows])
""",
        """\
import torch
from torch import nn

class Contrast(nn.Module):
    def __init__(self):
        self.scale = nn.Parameter(torch.zeros(()))

    @property
    def temperature(self):
        return self.scale.exp().item()  # !

    def report(self):
        return self.scale.exp().item()
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
        """\
import torch

def train(model, loader, optimizer, scaler, k):
    for i, (x, y) in enumerate(loader):
        (model(x, y) / k).backward()
        if (i + 1) % k == 0:
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            total += norm.item()  # !
        if (i + 1) % 100 == 0:
            scaler.step(optimizer)
            print(norm.item())  # !
            if verbose:
                print(norm.item())
        if (i + 1) % k == 0:
            scheduler.step()
            print(norm.item())
""",
        """\
import numpy as np
import torch
from torch.utils.data import Dataset

class Rows(Dataset):
    def __getitem__(self, index):
        return self.rows[index], self.labels[index].item()

def mean(loader):
    return [np.mean(x).item() for x in loader]

class Player:
    def choose_action(self, seen):
        return self.net(seen).argmax().item()

    def play(self, world):
        seen = world.reset()
        for step in range(1000):
            seen = world.step(self.choose_action(seen))
            action = self.net(seen).argmax().item()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        read = receiver(site.node)
        if read is None or site.node.args or look.prepares_data(site):
            return
        value = look.value(before_copies(read), site)
        if value.kind in ("array", "frame", "number") or value.where == "host":
            return
        if is_said_above(site) or look.converts(site) or look.draws(site):
            return
        if is_element(read, site, look):
            return
        if is_for_environment(read, site):
            return
        message = f"`{look.source(site.node)}` waits for the device"
        least = Heat.ONCE if _is_attribute_of_module(site, look) else None
        yield Found(site.node, message, read_after_loop(site, look), least)


def _is_attribute_of_module(site: Site, look: Look) -> bool:
    """Whether it looks like an attribute of a module to those who read it, in every step."""
    owner, decorators = site.function.owner, getattr(site.function.node, "decorator_list", ())
    if owner is None or not any(look.dotted(each) == "property" for each in decorators):
        return False
    return look.values.is_module(owner)
