"""One batch of an iterator that is made for it."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import varies


class FirstOfNewIterator(Rule):
    code = "HST122"
    name = "iterator-made-for-one-batch"
    why = (
        "`iter(loader)` starts workers, shuffles all indices and loads several batches ahead, of"
        " which one is used."
    )
    instead = "Keep one iterator and call `next` on it, making a new one when it ends."
    verify = "Compare the order of samples."
    risk = "samples come without replacement, as in an epoch"
    calls = ("next", "__next__")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, train_loader, steps):
    for step in range(steps):
        x = next(iter(train_loader))  # !
        y = iter(train_loader).__next__()  # !
        model(x, y).backward()
""",
        """\
import torch

class Trainer:
    def get_batch(self):
        return next(iter(self.train_loader))  # !

    def train(self, model, steps):
        for step in range(steps):
            model(self.get_batch()).backward()
""",
        """\
import torch

def train(model, train_loader, steps):
    shape = next(iter(train_loader)).shape
    batches = iter(train_loader)
    for step in range(steps):
        model(next(batches)).backward()
        device = next(iter(model.parameters())).device
    return shape, device

def shapes(model, loaders, names, make_loader):
    for loader in loaders:
        print(next(iter(loader)).shape)
    for name in names:
        print(next(iter(loaders[name])).shape)
        print(next(iter(make_loader(name))).shape)
        test_loader = make_loader(name)
        model(next(iter(test_loader)))
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        made = site.node.args[0] if site.node.args else receiver(site.node)
        if not isinstance(made, ast.Call) or called_name(made) != "iter" or not made.args:
            return
        loader = made.args[0]
        if site.loop is not None and varies(loader, site.loop):  # another one each time
            return
        if look.value(loader, site).kind == "loader":
            least = Heat.ONCE if look.local(site).inner else None
            message = f"`{look.source(made)}` is made for one batch"
            yield Found(site.node, message, least=least, assumes=site.loop is not None)
