"""A model run on all that was generated so far, for each new piece."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.models import is_model_call
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import calls_in, derived, last_name, names, root_name

CACHED = re.compile(r"past|cache|state|hidden|incremental|memory")


class SequenceRecomputed(Rule):
    code = "HST434"
    name = "sequence-recomputed"
    why = "Each turn computes all earlier positions again: the work grows with the square."
    instead = "Keep what earlier positions need (a key-value cache, the state) and run the new one."
    risk = "rounding: sums are taken in another order"
    effort = "a day"
    calls = ("cat", "concat", "multinomial", "argmax")
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Captioner(torch.nn.Module):
    def generate(self, image, out, length):
        for _ in range(length):
            recent = out[:, -self.window :]
            logits = self(image, recent)[:, -1]  # !
            out = torch.cat((out, logits.argmax(-1, keepdim=True)), dim=-1)
        return out

def sample(model, z, rows, columns):
    for i in range(rows):
        for j in range(columns):
            probs = model(z)[:, :, i, j].softmax(-1)  # !
            z[:, :, i, j] = torch.multinomial(probs, 1).float()
    return z
""",
        """\
import torch

def generate(model, out, length):
    cache = None
    for _ in range(length):
        logits, cache = model(out, past_key_values=cache)
        out = torch.cat([out, logits.argmax(-1, keepdim=True)], dim=-1)
    return out

def collect(model, loader):
    found = torch.empty(0)
    for x in loader:
        found = torch.cat([found, model(x)])
        best = model(x).argmax(-1)
    return found, best

class UNet(torch.nn.Module):
    def forward(self, x, skips):
        for block in self.blocks:
            x = torch.cat((x, skips.pop()), dim=1)
            x = self.decoder(x)
        return x
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.loop is None:
            return
        grown = _grown(site)
        if not grown:
            return
        depends = derived(site.loop, grown)
        for each in calls_in(site.loop):
            call = each.node
            if not _runs_model(each, look) or _keeps_state(call):
                continue
            if not depends.isdisjoint(_given(call)) and _feeds(each, site):
                yield Found(call, f"`{look.source(call.func)}` is run on all of `{grown}` again")
                return


def _grown(site: Site) -> str:
    """What is joined to itself, or written in a part: its name."""
    statement, call = site.statement, site.node
    if not isinstance(statement, ast.Assign):
        return ""
    target = statement.targets[0]
    if called_name(call) in ("cat", "concat"):
        joined = call.args[0] if call.args else None
        if not isinstance(joined, ast.List | ast.Tuple) or not joined.elts:
            return ""
        name = last_name(target)
        return name if isinstance(target, ast.Name) and last_name(joined.elts[0]) == name else ""
    root = root_name(target) if isinstance(target, ast.Subscript) else None
    return root.id if root is not None else ""


def _runs_model(site: Site, look: Look) -> bool:
    called = site.node.func
    if isinstance(called, ast.Name) and called.id == "self":
        return True
    return is_model_call(site.node, site.function, look)


def _given(call: ast.Call) -> set[str]:
    given = [*call.args, *(word.value for word in call.keywords)]
    return {name for each in given for name in names(each)}


def _keeps_state(call: ast.Call) -> bool:
    said = {*_given(call), *(word.arg or "" for word in call.keywords)}
    return any(CACHED.search(each) for each in said)


def _feeds(model: Site, grown: Site) -> bool:
    """Whether what is added comes from what the model gives: then it cannot run at once."""
    target = model.statement.targets[0] if isinstance(model.statement, ast.Assign) else None
    if target is None or grown.loop is None:
        return False
    made = {each for name in names(target) for each in derived(grown.loop, name)}
    return not made.isdisjoint(_added(grown))


def _added(site: Site) -> set[str]:
    """What the value is made of, without what was there before."""
    if site.called in ("cat", "concat"):
        return {name for each in site.node.args[0].elts[1:] for name in names(each)}
    return set(names(site.statement.value))  # type: ignore[attr-defined]
