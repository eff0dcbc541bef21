"""A batch that is copied to the device while everything waits."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Fix
from hasten.scan.arguments import add_keyword
from hasten.scan.edits import fix_of
from hasten.scan.heat import bare
from hasten.scan.look import (
    Look,
    argument,
    called_name,
    is_constant,
    is_own_attribute,
    keyword,
    names_in,
    receiver,
)
from hasten.scan.moves import moves_to_device
from hasten.scan.nodes import walk
from hasten.scan.outline import Function, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import root_name
from hasten.scan.values import DEPTH
from hasten.scan.vocabulary import TENSOR_METHODS, words

MAKERS = ("as_tensor", "tensor")


class BlockingTransfer(Rule):
    code = "HST207"
    name = "blocking-transfer"
    why = (
        "The copy from ordinary memory keeps Python waiting until it has arrived, so that neither"
        " the next batch nor the next launch is prepared meanwhile."
    )
    instead = (
        "Pin the memory in the loader, `pin_memory=True`, and copy with `non_blocking=True`; best"
        " while the step before still runs."
    )
    risk = "none on the way to the device; the other way needs an event"
    calls = ("to", "cuda", *MAKERS)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer, device):
    for x, y in loader:
        x = x.to(device)  # !
        y = y.cuda()  # !
        model(x, y).backward()
        optimizer.step()
""",
        """\
import torch
from torch.utils.data import DataLoader

def train(model, rows, optimizer, device):
    loader = DataLoader(rows, batch_size=64, num_workers=4, pin_memory=True)
    for x, y in loader:
        x, y = x.to(device), y.to(device)  # !
        model(x, y).backward()
        optimizer.step()
""",
        """\
import torch

class Trainer:
    def run(self, loader):
        for x_dict, y in loader:
            x_dict = {k: v.to(self.device) for k, v in x_dict.items()}  # !
            self.train_batch(x_dict)

    def train_batch(self, batch):
        batch = tuple(map(lambda t: t.to(self.device[0]), batch))  # !
        self.model(*batch).backward()
""",
        """\
import torch

def process_batch(model, batch, start, stop):
    rows, labels = batch
    rows = rows[start:stop].to(device=model.device)  # !
    labels = labels.view(-1, 3)
    labels = labels.to(model.device)  # !
    scores = model.scores(rows)
    return model.loss(scores.to(model.device), labels)
""",
        """\
import numpy as np
import torch
from . import util

def train(model, optimizer, draw, device):
    for step in range(1000):
        rows = torch.from_numpy(draw()).to(device)  # !
        more = util.to_tensor(np.asarray(draw())).to(device)  # !
        model(rows, more).backward()
        optimizer.step()
""",
        """\
import torch

class Batches:
    def __next__(self):
        rows = self.rows[self.place : self.place + self.size]
        self.place += self.size
        return rows.cuda(), self.labels[self.place].to(self.device)  # !
""",
        """\
import torch

def tune(model, loader, optimizer, device):
    for step, batch in enumerate(loader):
        batch = {name: each.to(device) for name, each in batch.items()}
        model(batch["input_ids"], batch["attention_mask"]).loss.backward()
        optimizer.step()
""",
        """\
import torch

def train(model, loader, optimizer, device):
    model = model.to(device)
    data = torch.zeros(3).to(device)
    for x, y in loader:
        x = x.to(device, non_blocking=True)
        y = y.cuda(non_blocking=True).to(torch.float32)
        out = model(x)
        mask = (out > 0).to(out.device)
        (out * mask - y.to(out.dtype)).sum().backward()
""",
        """\
import torch

class Mover:
    def send(self, data):
        return list(map(lambda t: t.to(self.device), data))  # !

    def fit(self, data, optimizer, verbose):
        rows = progress(data) if verbose else data
        for number, row in enumerate(rows):
            self.net(row.to(self.device)).backward()  # !
            optimizer.step()
            self.send(row)
""",
        """\
import torch

class Learner:
    def update(self, samples):
        seen = torch.as_tensor(samples["seen"], device=self.device)  # !
        done = torch.as_tensor(samples["done"], device=self.device)
        self.net(seen, done).sum().backward()
        self.optimizer.step()

    def act(self, seen):
        return self.net(torch.as_tensor(seen, device=self.device)).argmax()

    def play(self, world, steps):
        for step in range(steps):
            world.step(self.act(world.seen))
""",
        """\
import torch

def moved(batch, device):
    return {name: each.to(device) for name, each in batch.items()}

class Nearest:
    def search(self, query):
        return (self.rows - query.to(self.device)).square().sum(-1).argmin()

    def matched(self, predictions, batch):
        return (predictions - batch["boxes"].to(self.device)).abs().sum()

    def gradient(self, rows):
        ready = self.prepared(rows)
        return self.net(torch.from_numpy(ready.astype("float32")).to(self.device)).sum()

    def env_step(self, action):
        return torch.from_numpy(self.world.step(action)).to(self.device)

    def fit(self, data, loader, optimizer, device):
        for x in loader:
            x = moved(x, device)
            found = self.search(self.last) + self.matched(self.net(x), x) + self.env_step(0)
            (self.net(found) + self.gradient(self.rows)).backward()
            optimizer.step()
""",
        """\
import torch
from torch import nn

def norm_loss(gradients, device):
    norms = [each.norm(2) for each in gradients]
    return torch.stack([each.to(device) for each in norms])

class Net(nn.Module):
    def forward(self, x, mask):
        self.table = self.table.to(self.device)
        return self.linear(x) * mask.to(x.device)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call = site.node
        if site.called in MAKERS:
            yield from self._made(call, site, look)
            return
        moved = receiver(call)
        if moved is None or not moves_to_device(call) or _is_asynchronous(call):
            return
        if site.parent is site.statement and isinstance(site.statement, ast.Expr):
            return  # of no tensor: that would not change
        if all(look.mentions((word,)) for word in TOKENS) or look.draws(site):
            return
        if (
            look.prepares_data(site)
            or _stays(moved, site)
            or look.makes_tensor(look.origin(moved, site))
        ):
            return
        if self._comes_from_host(moved, call, site, look):
            message = f"`{look.source(call)}` waits until the copy has arrived"
            is_known = look.value(moved, site).where == "host"
            yield Found(call, message, _fix(call, moved, site, look), assumes=is_known)

    def _made(self, call: ast.Call, site: Site, look: Look) -> Iterator[Found]:
        """``torch.as_tensor(batch["x"], device=device)``, the first of its function."""
        if keyword(call, "device") is None or not call.args or look.prepares_data(site):
            return
        if look.value(call.args[0], site).kind != "unknown" or _is_to_host(call):
            return
        if any(_is_above(each, call) for each in site.function.calls):
            return
        if _is_of_batch(call.args[0], site, look):
            message = f"`{look.source(call)}` waits until the copy has arrived"
            yield Found(call, message, assumes=False)

    def _comes_from_host(self, moved: ast.expr, call: ast.Call, site: Site, look: Look) -> bool:
        value = look.value(moved, site)
        if value.where == "host":
            if OBSERVES.search(site.function.last_name) or _is_entry(moved, site, look):
                return False
            return value.kind in ("tensor", "batch", "list", "dict")
        if value.kind not in ("unknown", "tensor", "batch"):
            return False
        if site.function.last_name == "__next__":
            return True
        if value.where == "device":
            return False
        if _is_beside_another(call):
            return False
        return site.function.last_name != "forward" and _is_of_batch(moved, site, look)


def _is_entry(moved: ast.expr, site: Site, look: Look) -> bool:
    """Whether an array that the function is given comes to the device here, once in a call: who
    calls decides how often. A step is called for each batch."""
    name = site.function.last_name
    if site.loop is not None or STEPS.search(name) or "loss" in name:
        return False
    while isinstance(moved, ast.Call) and called_name(moved) not in OF_ARRAYS:
        if not isinstance(moved.func, ast.Attribute):
            return False
        moved = moved.func.value
    return isinstance(moved, ast.Call) and _is_made_of_given(moved, site, look)


def _is_made_of_given(node: ast.expr, site: Site, look: Look, steps: int = 4) -> bool:
    """Whether a parameter is behind it, as far as functions of NumPy leave it what it is."""
    if isinstance(node, ast.Call) and called_name(node) in OF_ARRAYS and node.args:
        node = node.args[0]
    if isinstance(node, ast.Call) and is_own_attribute(node.func):
        return any(_is_made_of_given(each, site, look, steps - 1) for each in node.args)
    name = root_name(node)
    if name is None or not steps:
        return False
    binding, scope = look.values.definition(name.id, name.lineno, site.function)
    if binding is None:
        return scope is site.function
    return binding.value is not None and _is_made_of_given(binding.value, site, look, steps - 1)


OF_ARRAYS = words("from_numpy as_tensor tensor asarray array ascontiguousarray")


def _is_to_host(call: ast.Call) -> bool:
    return is_constant(keyword(call, "device"), "cpu")


def _is_above(other: Site, call: ast.Call) -> bool:
    return (
        other.called in MAKERS
        and other.node.lineno < call.lineno
        and keyword(other.node, "device") is not None
    )


OBSERVES = re.compile(r"(^|_)(env|obs|observations?|infos?)(_|$)")
"""What an environment shows is there only now, and wanted at once."""
TOKENS = ("input_ids", "attention_mask")
"""Batches of a language model are a few whole numbers, beside a step that computes long on them."""


def _stays(moved: ast.expr, site: Site) -> bool:
    """``self.table = self.table.to(device)``: from the second time on there is nothing to do."""
    statement = site.statement
    return (
        isinstance(moved, ast.Attribute)
        and isinstance(statement, ast.Assign)
        and any(
            isinstance(target, ast.Attribute) and target.attr == moved.attr
            for target in statement.targets
        )
    )


def _is_asynchronous(call: ast.Call) -> bool:
    """Also to a device that shares the memory of the host."""
    if is_constant(argument(call, 0, "device"), "mps"):
        return True
    given = keyword(call, "non_blocking")
    return given is not None and not is_constant(given, False)


def _is_beside_another(call: ast.Call) -> bool:
    """``mask.to(x.device)``: mostly nothing to do."""
    target = argument(call, 0, "device")
    return (
        isinstance(target, ast.Attribute)
        and target.attr == "device"
        and isinstance(target.value, ast.Name)
        and target.value.id not in ("self", "args", "config", "cfg", "model", "accelerator")
    )


def _is_of_batch(moved: ast.expr, site: Site, look: Look) -> bool:
    """Whether it is made of what a loop over batches gives, or of what is handed over as one."""
    for _ in range(DEPTH):
        match moved:
            case ast.Attribute(attr="shape"):
                return False
            case ast.Subscript(value=whole) | ast.Attribute(value=whole) | ast.IfExp(orelse=whole):
                moved = whole
            case ast.Call(func=ast.Attribute(value=whole, attr=name)) if name in PARTS:
                moved = whole
            case ast.Name(id=name) if name not in ("self", "model", "net"):
                binding, scope = look.values.definition(name, moved.lineno, site.function)
                if binding is not None and binding.within is not None and binding.value is None:
                    return any(map(BATCHES.search, names_in(site.statement)))  # of a lambda
                if binding is None or binding.value is None:
                    return scope is not None and _is_given_batch(name, scope)
                if binding.how == "loop":
                    over = bare(binding.value)
                    if look.heats.is_loader(over, site.function) or BATCHES.search(name):
                        return not isinstance(look.values.given(over, site.function), ast.ListComp)
                    moved = over
                elif scope is not site.function or binding.line >= moved.lineno:
                    return False
                else:
                    moved = bare(binding.value)
            case _:
                return False
    return False


PARTS = TENSOR_METHODS | {"items", "values"}
BATCHES = re.compile(r"batch|loader|(^|_)(data|samples?|inputs)$")
"""What people call what comes from a loader."""
STEPS = re.compile(r"train|batch|(^|_)step(_|$)")
RESULTS = re.compile(r"^(y_)?pred|output|logit|embedding|gradient")
"""Who takes results of a model takes a batch that lies on the device already."""


def _is_given_batch(name: str, taker: Function) -> bool:
    """Whether a function takes a batch as that parameter: one that is called so, or of a function
    that is there for a step. What only moves to where it is told may be given anything."""
    if any(map(RESULTS.search, taker.parameters)):
        return False
    if STEPS.search(taker.last_name):
        return True
    return BATCHES.search(name) is not None and "device" not in taker.parameters


def _fix(call: ast.Call, moved: ast.expr, site: Site, look: Look) -> Fix | None:
    """Only where the batch is known to be pinned, and is gone once it was copied."""
    if keyword(call, "non_blocking") is not None or not isinstance(moved, ast.Name):
        return None
    binding, scope = look.values.definition(moved.id, moved.lineno, site.function)
    if binding is None or binding.how != "loop" or scope is not site.function:
        return None
    if not binding.path or not _is_pinned(binding.value, site, look):
        return None
    if not _is_rebound(moved.id, site.statement):
        return None
    about = f"Goes on while `{moved.id}` is copied from pinned memory."
    return fix_of("safe", about, add_keyword(look.lines, call, "non_blocking", "True"))


def _is_pinned(over: ast.expr | None, site: Site, look: Look) -> bool:
    loader = look.values.given(bare(over) if over is not None else None, site.function)
    return (
        isinstance(loader, ast.Call)
        and look.dotted(loader.func).endswith("DataLoader")
        and is_constant(argument(loader, 7, "pin_memory"), True)
    )


def _is_rebound(name: str, statement: ast.stmt) -> bool:
    """``x = x.to(device)``: nobody can write to the batch while it is copied."""
    if not isinstance(statement, ast.Assign):
        return False
    return any(
        isinstance(each, ast.Name) and each.id == name
        for target in statement.targets
        for each in walk(target)
    )
