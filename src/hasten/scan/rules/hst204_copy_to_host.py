"""``.cpu()`` and ``.tolist()`` in a hot place."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat, trains
from hasten.scan.look import (
    Look,
    argument,
    called_name,
    is_constant,
    is_own_attribute,
    is_said_above,
    keyword,
    names_in,
    receiver,
)
from hasten.scan.nodes import walk
from hasten.scan.outline import COMPREHENSIONS, Loop, Site
from hasten.scan.reads import is_for_environment
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import calls_in, last_name

METHODS = ("cpu", "to", "tolist", "numpy", "batch_decode")
CONVERTERS = re.compile(
    r"(^|_)(to|as)_(optional_)?(list|np|numpy|cpu|float|scalar|item|host)$|2(np|numpy)$|^asnumpy$"
)
"""What people call functions of theirs that copy a tensor to the host."""


class CopyToHost(Rule):
    code = "HST204"
    name = "copy-to-host"
    why = (
        "A copy to the host waits until everything before it is computed. For results that are"
        " wanted once, one copy at the end costs less than one a step."
    )
    instead = (
        "Collect on the device and copy once after the loop, or compute what is wanted there;"
        " for large results `.to('cpu', non_blocking=True)` into pinned memory, read a step later."
    )
    calls = (
        *METHODS, "*_list", "*_np", "*_numpy", "*_cpu", "*_float",
        "*_scalar", "*_item", "*_host", "*2np", "*2numpy", "asnumpy",
    )  # fmt: skip
    waits = True
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer):
    losses = []
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu().numpy())  # !
        losses.extend(y.cuda().cpu().tolist())  # !
        losses.append(loss.to("cpu"))  # !
    return losses
""",
        """\
import torch

def evaluate(model, loader):
    right = []
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
            right.extend(out.tolist())  # !
    return right
""",
        """\
import torch
from torch import nn

class Encoder(nn.Module):
    def forward(self, x, mask):
        lengths = mask.sum(1).cpu()  # !
        return self.rnn(nn.utils.rnn.pack_padded_sequence(x, lengths))
""",
        """\
import torch

def scores_of(model, loader):
    scores = []
    for x in loader:
        scores.extend(model(x))
    return [score.cpu().numpy() for score in scores]  # !
""",
        """\
import torch

def predict(model, loader):
    found = []
    with torch.no_grad():
        for x in loader:
            found.append(model(x).cpu().numpy())
    return torch.cat(found).cpu()

class Trainer:
    def save(self, epochs):
        for epoch in range(epochs):
            state = self.network.cpu()
""",
        """\
import torch

def to_list(values):
    return values.detach().cpu().tolist()

def answers(model, loader):
    found = []
    with torch.no_grad():
        for x, names in loader:
            starts, ends = model(x)
            for i, name in enumerate(names):
                found.append(dict(
                    starts=to_list(starts[i]),  # !
                    ends=to_list(ends[i]),
                ))
    return found
""",
        """\
import torch

class Critic:
    def train_step(self, batch):
        loss = self.net(batch)
        loss.backward()
        return {"loss": utils.to_float(loss), "rows": utils.to_float(3), "x": frame.to_numpy()}  # !

    def bound_loss(self, batch, rows: torch.Tensor):
        if self.is_mps or batch.device.type == "xpu":
            return self.limits(rows.cpu())
        return self.limits(rows.numpy(force=True))  # !

    def scores_of(self, batch):
        return self.net(batch).cpu().numpy()

    def update(self, batch):
        loss = self.net(batch) + self.scores_of(batch)
        loss.backward()
        return loss.detach().cpu().numpy()  # !

    def values_of(self, batches):
        found = []
        for x in batches:
            found.append(self.net(x))
        return torch.cat(found).cpu()

def update_batch(model, batches, optimizer, repeat):
    told = []
    for _ in range(repeat):
        losses = []
        for batch in batches:
            loss = model(batch).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        told += torch.stack(losses).tolist()
    return told

def train_batch(model, parts):
    for part in parts:
        losses = []
        for row in part:
            losses.append(model(row))
            torch.stack(losses).sum().backward()
            print(torch.stack(losses).tolist())  # !

def train_heads(loader, heads, optimizer):
    for x in loader:
        losses = []
        for head in heads:
            losses.append(head(x).sum())
        torch.stack(losses).sum().backward()
        print(torch.stack(losses).tolist())  # !
        optimizer.step()
""",
        """\
import numpy as np
import torch

def train(model, loader):
    for x, names in loader:
        lengths = np.asarray(names).tolist()
        rows = x.numpy()
        loss = model(x, lengths, rows)
        loss.backward()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call = site.node
        name = called_name(call)
        copied = _copied(call, name)
        if copied is None or _goes_on(site) or is_said_above(site) or look.prepares_data(site):
            return
        if (
            look.converts(site)
            or look.draws(site)
            or _is_exit(site)
            or is_for_environment(copied, site)
            or _is_joined(copied, site, look)
            or _is_for_lack(site)
        ):
            return
        if name == "batch_decode":
            waits = self._decodes_in_training(site, look)
        elif (name == "to" and not _is_to_host(call)) or (
            name == "numpy" and not is_constant(argument(call, 0, "force"), True)
        ):
            return
        else:
            waits = self._is_read(copied, name, site, look)
            if name != "tolist":
                waits = waits and not self._collects_results(site, look)
        if waits:
            if look.needs_host(site.function):
                return
            least = Heat.ONCE if name == "cpu" and _goes_over_list(site, look) else None
            message = f"`{look.source(call)}` waits for the device"
            yield Found(call, message, None, least, assumes=False)

    def _decodes_in_training(self, site: Site, look: Look) -> bool:
        owner = site.function.owner
        return owner is not None and look.values.is_module(owner) and not look.without_grad(site)

    def _is_read(self, copied: ast.expr, name: str, site: Site, look: Look) -> bool:
        value = look.value(copied, site)
        if value.where == "host" or value.kind not in ("tensor", "batch", "unknown", "list"):
            return False
        return name == "cpu" or look.is_on_device(copied, site)

    def _collects_results(self, site: Site, look: Look) -> bool:
        """Results of a prediction are wanted on the host, batch by batch."""
        if any(loop.has_backward for loop in look.loops(site)):
            return False
        if _goes_over_list(site, look):
            return False
        name = site.function.last_name
        if name.endswith("_step") or _is_per_element(site, look) or _is_recorded(site):
            return False
        return look.without_grad(site) or bool(PREDICTS.search(name))


PREDICTS = re.compile(r"predict|infer|encode|embed|generat|sampl|transform|search|export|plot|save")
JOINS = ("cat", "concat", "stack", "vstack", "hstack")
AFTERWARDS = ("item", "cpu")


def _copied(call: ast.Call, name: str) -> ast.expr | None:
    """Of a method what it is called on, of a function of somebody's own what it is given."""
    if name in METHODS:
        return receiver(call)
    return call.args[0] if call.args and CONVERTERS.search(name) else None


def _is_exit(site: Site) -> bool:
    """``return out.cpu().numpy()``: what the function is there for is wanted on the host."""
    function = site.function
    return (
        isinstance(site.statement, ast.Return)
        and site.loop is None
        and called_name(site.statement.value) == "numpy"
        and not STEPS.search(function.last_name)
        and not trains(function)
    )


STEPS = re.compile(r"train|batch|loss|update|(^|_)step(_|$)|^forward")


def _is_joined(copied: ast.expr, site: Site, look: Look) -> bool:
    """``torch.cat(results).cpu()`` after a loop: one copy of all."""
    joined = look.origin(copied, site)
    if not isinstance(joined, ast.Call) or called_name(joined) not in JOINS:
        return False
    return look.is_of_torch(joined) and (site.loop is None or _is_of_inner(site.loop, joined, look))


def _is_of_inner(loop: Loop, joined: ast.Call, look: Look) -> bool:
    """Whether a loop over batches within another has filled the list that is joined there."""
    filled = last_name(joined.args[0]) if joined.args else ""
    return filled != "" and any(
        each.loop is not None
        and each.loop is not loop
        and loop in each.loop.outwards()
        and look.heats.goes_over_batches(each.loop)
        and last_name(receiver(each.node)) == filled
        for each in calls_in(loop)
        if each.called == "append"
    )


def _is_for_lack(site: Site) -> bool:
    """Under ``if x.device.type == "mps"``: what that kind of device cannot do."""
    return any(
        isinstance(block.node, ast.If) and any(map(OTHERS.search, _said(block.node.test)))
        for block in (site.block.outwards() if site.block is not None else ())
    )


OTHERS = re.compile(r"(^|_)(mps|xpu|npu|hpu|tpu|xla)($|_)")


def _said(test: ast.expr) -> Iterator[str]:
    """Names and texts of a condition."""
    yield from names_in(test)
    yield from (
        each.value
        for each in walk(test)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    )


def _is_to_host(call: ast.Call) -> bool:
    return is_constant(argument(call, 0, "device"), "cpu") and keyword(call, "non_blocking") is None


def _goes_over_list(site: Site, look: Look) -> bool:
    """One copy for each of what was collected in a list."""
    if site.loop is None or not isinstance(site.loop.node, COMPREHENSIONS):
        return False
    _, over = site.loop.header()
    return look.value(over, site).kind == "list"


def _is_per_element(site: Site, look: Look) -> bool:
    return site.loop is not None and site.loop.is_statement and look.local(site).inner > 0


def _is_recorded(site: Site) -> bool:
    """``self.entropies.extend(...)``: kept beside what the function is there for."""
    match site.statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=kept, attr="append" | "extend"))):
            return is_own_attribute(kept)
    return False


def _goes_on(site: Site) -> bool:
    """Whether another of these follows in the same row, and is said there."""
    return isinstance(site.parent, ast.Attribute) and site.parent.attr in AFTERWARDS
