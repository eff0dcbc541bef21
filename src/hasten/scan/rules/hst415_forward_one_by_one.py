"""A model called for one thing at a time where it takes many."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import calls_in, last_given, last_name, loop_of, names

MANY = re.compile(
    r"^(n|num|number_of|nb)_?(mc_?|monte_carlo_?|posterior_?)?"
    r"(sampl\w*|draws?|passes|members|estimators|ensembles?|features|columns|fields|variables|mc)"
    r"(_times)?$|^(mc_samples|mc_dropout|ensemble_size|n_mc)$"
)
"""What a loop counts whose turns do not depend on one another."""
MIRRORS = ("flip", "rot90", "fliplr", "flipud", "hflip", "vflip")
MEMBERS = re.compile(r"(estimator|member|learner|expert_model|q_net|critic|model|ensemble)\w*s_?$")
SPLITS = ("chunk", "split", "tensor_split")
ENCODES = ("encode", "predict", "embed", "forward", "generate")


class ForwardOneByOne(Rule):
    code = "HST415"
    name = "forward-one-by-one"
    why = "A small batch takes the device hardly less time than a large one."
    instead = "Stack the inputs along the batch (or use `torch.func.vmap`), call once, and split."
    risk = "layers that couple samples of a batch give other numbers; more memory at once"
    effort = "an hour"
    nodes = (ast.For, ast.ListComp, ast.GeneratorExp)
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Predictor:
    def predict(self, x):
        out = self.network(x)
        for axes in self.mirrors:
            out += torch.flip(self.network(torch.flip(x, axes)), axes)  # !
        return out
""",
        """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(8)

    def forward(self, x, n_samples):
        parts = [self.norm(each) for each in x.chunk(4)]  # !
        draws = []
        for i in range(n_samples):  # !
            draws.append(self.model(x))
        return torch.cat(parts), draws
""",
        """\
import torch

class Ensemble(torch.nn.Module):
    def forward(self, x):
        outputs = [torch.softmax(each(x), dim=1) for each in self.estimators_]  # !
        return torch.stack(outputs).mean(0)
""",
        """\
import torch

def rank(model, queries):
    found = []
    for query in queries:
        found.append(model.encode([query]))  # !
    return found
""",
        """\
import torch

class Net(torch.nn.Module):
    def forward(self, x, loader):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        for layer in self.layers:
            x = layer(x)
        for i in range(self.n_samples):
            x = x + i
        for batch in loader:
            x = self.model(batch)
        return x
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        loop = loop_of(site)
        if loop is None:
            return
        _, over = loop.header()
        calls = list(calls_in(loop))
        if _counts_many(over) and any(_is_forward(each, look) for each in calls):
            yield Found(site.node, "a model is called once for each of them", least=Heat.STEP)
            return
        if _calls_members(loop, over, calls):
            yield Found(site.node, "each member runs by itself", least=Heat.STEP)
            return
        for each in calls:
            if _takes_one(each, loop, look) or (
                _is_model(each, look) and _takes_part(each, over, site)
            ):
                yield Found(
                    each.node, f"`{look.source(each.node.func)}` is called for one at a time"
                )


def _counts_many(over: ast.expr) -> bool:
    if called_name(over) not in ("range", "trange") or len(over.args) != 1:  # type: ignore[attr-defined]
        return False
    return bool(MANY.search(last_name(over.args[0])))  # type: ignore[attr-defined]


def _calls_members(loop: Loop, over: ast.expr, calls: list[Site]) -> bool:
    """``for model in self.models: model(x)``."""
    if called_name(over) in ("enumerate", "zip") and isinstance(over, ast.Call) and over.args:
        over = over.args[0]
    target, _ = loop.header()
    if target is None or not MEMBERS.search(last_name(over)):
        return False
    targets = set(names(target))
    return any(
        isinstance(each.node.func, ast.Name) and each.node.func.id in targets for each in calls
    )


def _is_model(site: Site, look: Look) -> bool:
    return look.value(site.node.func, site).kind == "module"


def _is_forward(site: Site, look: Look) -> bool:
    """Of a model, or of a method of a module, which calls its layers."""
    if _is_model(site, look):
        return True
    owner = site.function.owner
    called = site.node.func
    if owner is None or not isinstance(called, ast.Attribute) or last_name(called.value) != "self":
        return False
    return called.attr in owner.methods and look.values.is_module(owner)


def _takes_one(site: Site, loop: Loop, look: Look) -> bool:
    """``model.encode([text])`` and ``model(x[i].unsqueeze(0))``."""
    call: ast.Call = site.node
    if not call.args or site.loop is not loop:
        return False
    first = call.args[0]
    target, _ = loop.header()
    counted = set(names(target)) if target is not None else set()
    if isinstance(first, ast.List) and len(first.elts) == 1 and called_name(call) in ENCODES:
        return (
            last_name(call.func.value) != "self" if isinstance(call.func, ast.Attribute) else True
        )
    is_lifted = called_name(first) == "unsqueeze" and bool(counted & set(names(first)))
    return is_lifted and _is_model(site, look)


def _takes_part(site: Site, over: ast.expr, loop: Site) -> bool:
    """A mirrored input, or a part of one that was split along the batch."""
    if any(called_name(each) in MIRRORS for each in site.node.args):
        return True
    source = last_given(over, site.function) or over
    is_split = called_name(source) in SPLITS and isinstance(
        loop.node, ast.ListComp | ast.GeneratorExp
    )
    return is_split and len(site.node.args) == 1
