"""Members of an ensemble, draws or parts of a batch, run one after the other."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import calls_in, last_given, last_name, loop_of, names

MANY = re.compile(
    r"^(n|num|number_of|nb)_?(mc_?|monte_carlo_?|posterior_?)?"
    r"(sampl\w*|draws?|passes|members|estimators|ensembles?|features|columns|fields|variables|mc)"
    r"(_times)?$|^(mc_samples|mc_dropout|ensemble_size|n_mc)$"
)
"""What a loop counts whose turns do not depend on one another."""
MEMBERS = re.compile(r"(estimator|member|learner|q_net|critic|model|ensemble)\w*s_?$")
NO_LAYERS = re.compile(r"loss|metric|criteri|transform|augment|fn|func|callback|hook|head|task")
HOT = re.compile(r"^_?(forward|encode|decode|call|__call__|embed)")
SPLITS = ("chunk", "split", "tensor_split")


class MembersOneByOne(Rule):
    code = "HST430"
    name = "members-one-by-one"
    why = "Each launches all kernels of a model by itself, and small ones leave the device idle."
    instead = (
        "Fold draws and parts into the batch, and members into one batched model"
        " (`torch.func.stack_module_state` with `vmap`)."
    )
    risk = "layers that couple samples of a batch give other numbers; more memory at once"
    effort = "an hour"
    nodes = (ast.For, ast.ListComp, ast.GeneratorExp)
    examples: ClassVar[tuple[str, ...]] = (
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

class Mixture(torch.nn.Module):
    def forward(self, x, y):
        experts = torch.stack([expert(x) for expert in self.experts])  # !
        both = [layer(each) for layer, each in zip(self.branches, (x, y))]  # !
        return experts, both, [loss(x, y) for loss in self.losses]
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
        for model in self.models:
            model.eval()
        return x
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        over = _header(site.node)
        many, members = _counts_many(over), bool(MEMBERS.search(last_name(over)))
        parts = not isinstance(site.node, ast.For) and _is_split(over, site)
        layers = not isinstance(site.node, ast.For) and _calls_own_target(site.node)
        loop = loop_of(site) if many or members or parts or layers else None
        if loop is None:
            return
        calls = list(calls_in(loop))
        if members and _calls_target(loop, calls):
            yield Found(site.node, "each member runs by itself")
        elif not isinstance(site.node, ast.For) and _are_layers(over, loop, calls, look):
            yield Found(site.node, "each layer runs by itself on what the others do not change")
        elif (many and any(_is_forward(each, look) for each in calls)) or (
            parts and any(_is_model(each, look) for each in calls)
        ):
            yield Found(site.node, "a model is called once for each of them")


def _header(node: ast.For | ast.ListComp | ast.GeneratorExp) -> ast.expr:
    """What it goes over, without what only counts."""
    over = node.iter if isinstance(node, ast.For) else node.generators[0].iter
    if isinstance(over, ast.Call) and called_name(over) in ("enumerate", "zip") and over.args:
        return over.args[0]
    return over


def _calls_own_target(node: ast.ListComp | ast.GeneratorExp) -> bool:
    """``[layer(x) for layer in layers]``."""
    targets = set(names(node.generators[0].target))
    return any(
        isinstance(each, ast.Call) and last_name(each.func) in targets for each in walk(node.elt)
    )


def _are_layers(over: ast.expr, loop: Loop, calls: list[Site], look: Look) -> bool:
    """Whether it is the forward pass of a module, and no losses or metrics are called."""
    owner = loop.function.owner
    if owner is None or not look.values.is_module(owner) or not _calls_target(loop, calls):
        return False
    name = last_name(over)
    return not NO_LAYERS.search(name) and HOT.search(loop.function.last_name) is not None


def _counts_many(over: ast.expr) -> bool:
    if not isinstance(over, ast.Call) or called_name(over) not in ("range", "trange"):
        return False
    return len(over.args) == 1 and bool(MANY.search(last_name(over.args[0])))


def _is_split(over: ast.expr, site: Site) -> bool:
    return called_name(last_given(over, site.function) or over) in SPLITS


def _calls_target(loop: Loop, calls: list[Site]) -> bool:
    """``for model in self.models: model(x)``."""
    target, _ = loop.header()
    targets = set(names(target)) if target is not None else set()
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
