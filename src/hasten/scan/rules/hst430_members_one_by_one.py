"""Members of an ensemble, draws or parts of a batch, run one after the other."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, is_own_attribute, names_in
from hasten.scan.nodes import walk
from hasten.scan.outline import Loop, Site
from hasten.scan.recurrence import handed_on
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import (
    calls_in,
    derived,
    last_given,
    last_name,
    loop_of,
    names,
    varies,
)
from hasten.scan.turns import hands_on_tensor

MANY = re.compile(
    r"^(n|num|number_of|nb)_?(mc_?|monte_carlo_?|posterior_?)?"
    r"(sampl\w*|draws?|passes|members|estimators|ensembles?|features|columns|fields|variables|mc)"
    r"(_times)?$|^(mc_samples|mc_dropout|ensemble_size|n_mc)$"
)
"""What a loop counts whose turns do not depend on one another."""
MEMBERS = re.compile(
    r"(estimator|member|learner|q_?(net|func)|critic|model|ensemble|network|actor)\w*s_?$"
)
HEADS = re.compile(r"^(n|num|nb)_?heads?$|^nheads?$")
"""How many heads of attention there are, which are all alike."""
NO_LAYERS = re.compile(
    r"loss|metric|criteri|transform|augment|fn|func|callback|hook|head|task|conv|pool|block|stage"
    r"|lateral|norm|aggr|^_?ops?$|logits"
)
"""What is called in turn and is no layer, or one of a shape of its own."""
ALIKE = re.compile(
    r"expert|member|estimator|learner|embed|embs?$|tables?$|tower|ensemble|branch|nets$"
)
"""What layers are called that differ in their weights only."""
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

class Experts(torch.nn.Module):
    def forward(self, x):
        found = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):  # !
            found += self.weights[:, i : i + 1] * expert(x)
        for i in range(self.count):  # !
            chosen = self.choice == i
            found[chosen] = self.nets[i](x[chosen])
        for name in self.names:  # !
            found = found + self.branches[name](x)
        return found

class Table(torch.nn.Module):
    def forward(self, x):
        parts = []
        for feature in self.features:  # !
            parts.append(self.tables[feature.name](x[feature.name]))
        return torch.cat(parts), [self.nets[i](x) for i in range(self.count)]  # !

def uncertainty(model, x, times=50):
    draws = []
    for _ in range(times):  # !
        draws.append(model(x))
    with torch.no_grad():
        more = torch.stack([model(x) for i in range(times)])  # !
    for i in range(times):  # !
        draws.append(model(x).softmax(-1))
    return draws, more
""",
        """\
import torch

class Deep(torch.nn.Module):
    def forward_all(self, x):
        found = [x]
        for layer in self.narrow:
            found.append(layer(found[-1]))
        for model in self.models:
            x = model(x)
        found.extend(layer(found[-1]) for layer in self.wide)
        return found, x, [aggregate(x) for aggregate in self.aggregates]

    def forward(self, x, features):
        for i in range(self.depth):
            x = self.blocks[i](x)
        for i, up in enumerate(self.ups):
            x = up(x, features[i])
        kept = []
        for layer, each in zip(self.laterals, features):
            kept.append(layer(each))
        for i in range(self.depth):
            x = self.mix[i](x) + x
        return x, kept

def measure(model, x, loader, optimizer):
    for _ in range(10):
        model(x)
    for _ in range(self.epochs):
        for batch in loader:
            loss = model(batch)
            loss.backward()
""",
        """\
import torch

class Heads(torch.nn.Module):
    def forward(self, q, x):
        found = []
        for i in range(self.n_heads):  # !
            found.append(self.attend(self.queries[i](q), x))
        outs = []
        for name in self.sizes.keys():  # !
            part = x[name]
            if self.scaled:
                part = self.scales[name](part)
            outs.append(self.encoders[name](part))
        values = [getattr(self, f"value{i}")(q) for i in range(self.n_values)]  # !
        return found, outs, values

class Chained(torch.nn.Module):
    def forward(self, x, parts):
        for name in self.sizes:
            part = parts[name]
            parts = self.encoders[name](part)
        for i in range(self.count):
            parts[i], x[i] = self.cells[i](q, x[i])
            q = x[i]
        for encoder in self.encoders:
            x += encoder(x)
        return [head(x) for head in self.heads]
""",
        """\
import torch

class Pyramid(torch.nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3)
        self.scales = torch.nn.ModuleList([torch.nn.Linear(size, 8) for size in sizes])
        self.twins = torch.nn.ModuleList([torch.nn.Linear(8, 8) for _ in sizes])

    def forward(self, x):
        parts = [layer(each) for layer, each in zip(self.scales, x)]
        return parts, [layer(parts[0]) for layer in self.twins]  # !
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
        node, over = site.node, _header(site.node)
        many, members = _counts_many(over), bool(MEMBERS.search(last_name(over)))
        draws = _only_counts(node)
        parts = not isinstance(node, ast.For) and _is_split(over, site)
        layers = _is_forward_pass(site, look) and _calls_own_target(node)
        loop = loop_of(site) if many or members or draws or parts or layers else None
        if loop is None:
            return
        calls = list(calls_in(loop))
        if members and _calls_target(loop, calls):
            if not hands_on_tensor(loop, look):
                yield Found(node, "each member runs by itself")
        elif layers and _are_layers(loop, calls, look):
            yield Found(node, "each layer runs by itself on what the others do not change")
        elif draws and any(_is_draw(each, loop, look) for each in calls):
            yield Found(node, "a model is called once for each draw", least=Heat.ONCE)
        elif (many and any(_is_forward(each, look) for each in calls)) or (
            parts and any(_is_model(each, look) for each in calls)
        ):
            yield Found(node, "a model is called once for each of them")


def _header(node: ast.For | ast.ListComp | ast.GeneratorExp) -> ast.expr:
    """What it goes over, without what only counts."""
    over = node.iter if isinstance(node, ast.For) else node.generators[0].iter
    if isinstance(over, ast.Call) and called_name(over) in ("enumerate", "zip") and over.args:
        return over.args[0]
    return over


def _calls_own_target(node: ast.For | ast.ListComp | ast.GeneratorExp) -> bool:
    """``[layer(x) for layer in layers]``, ``[self.layers[i](x) for i in range(n)]``."""
    head = node if isinstance(node, ast.For) else node.generators[0]
    targets = set(names(head.target))
    parts = node.body if isinstance(node, ast.For) else [node.elt]
    if any(NO_LAYERS.search(each) and not HEADS.match(each) for each in names_in(head.iter)):
        return False
    return any(
        isinstance(each, ast.Call) and _is_member(each.func, targets)
        for part in parts
        for each in walk(part)
    )


def _is_member(called: ast.expr, targets: set[str]) -> bool:
    """Whether it is what a loop goes over, or the one of ``self`` at the place that it counts."""
    match called:
        case ast.Name(id=name):
            return name in targets
        case ast.Subscript(value=ast.Attribute(attr=name) as held) if is_own_attribute(held):
            return not NO_LAYERS.search(name) and not targets.isdisjoint(names(called.slice))
        case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id="self"), by_name, *_]):
            return not targets.isdisjoint(names(by_name))
        case ast.Attribute(value=ast.Call() as held):
            return _is_member(held, targets)
    return False


def _is_forward_pass(site: Site, look: Look) -> bool:
    owner = site.function.owner
    if owner is None or not HOT.search(site.function.last_name):
        return False
    return look.values.is_module(owner)


def _are_layers(loop: Loop, calls: list[Site], look: Look) -> bool:
    """Whether all are of a kind, and none needs what another one gives."""
    target, _ = loop.header()
    targets = set(names(target)) if target is not None else set()
    members = [each for each in calls if _is_member(each.node.func, targets)]
    if not members or not any(_are_alike(each, loop, look) for each in members):
        return False
    if any(_takes_last(each, loop) for each in members):
        return False
    if isinstance(loop.node, ast.For):
        return all(_is_apart(each.node, loop, targets) for each in members)
    return True


def _are_alike(site: Site, loop: Loop, look: Look) -> bool:
    """Whether the layers differ in their weights only: by their name, or by how they were made.
    Embeddings may differ in size, since one table with offsets holds them all; where images are
    convolved, layers of one list see different scales and fill the device by themselves."""
    if "Conv" not in look.text:
        return True
    called = site.node.func
    held = called.value if isinstance(called, ast.Subscript) else loop.header()[1]
    said = {name.lower() for name in names_in(held)}
    if any(ALIKE.search(name) for name in said):
        return True
    owner = site.function.owner
    for name in said & owner.attributes.keys() if owner is not None else ():
        for binding, _ in owner.attributes[name]:  # type: ignore[union-attr]
            if any(_makes_alike(each) for each in walk(binding.value or held)):
                return True
    return False


def _makes_alike(node: ast.AST) -> bool:
    """``[Linear(8, 8) for _ in range(n)]``, ``[Embedding(size, 8) for size in sizes]``."""
    if not isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp):
        return False
    made = node.value if isinstance(node, ast.DictComp) else node.elt
    if called_name(made).startswith("Embedding"):
        return True
    changing = {name for each in node.generators for name in names(each.target)}
    return isinstance(made, ast.Call) and changing.isdisjoint(names(made))


def _takes_last(site: Site, loop: Loop) -> bool:
    """``found.append(layer(found[-1]))``."""
    kept = {
        last_name(each.node.func.value)
        for each in loop.function.calls
        if each.called in ("append", "extend")
        and isinstance(each.node.func, ast.Attribute)
        and loop.holds(each.node.lineno)
    }
    given = [*site.node.args, *(word.value for word in site.node.keywords)]
    return not kept.isdisjoint(name for each in given for name in names(each))


def _is_apart(call: ast.Call, loop: Loop, targets: set[str]) -> bool:
    """Whether it is given what the loop does not change, all of it or the part that it counts."""
    given = [*call.args, *(word.value for word in call.keywords)]
    wholes = [each.value if isinstance(each, ast.Subscript) else each for each in given]
    read = {name for each in wholes for name in names(each)}
    if any(last_name(each) in targets for each in given):
        return False
    return bool(read) and read.isdisjoint(_changed(loop))


def _changed(loop: Loop) -> set[str]:
    """What a turn may see that another has left, and what is made of it."""
    node: ast.For = loop.node  # type: ignore[assignment]
    added = {
        name
        for part in node.body
        for each in walk(part)
        if isinstance(each, ast.AugAssign)
        for name in names(each.target)
    }
    left = handed_on(node) | added
    return left.union(*(derived(loop, each) for each in left))


def _only_counts(node: ast.For | ast.ListComp | ast.GeneratorExp) -> bool:
    """``for _ in range(n)``, and with a name that nothing reads."""
    first = node if isinstance(node, ast.For) else node.generators[0]
    if called_name(first.iter) not in ("range", "trange"):
        return False
    name = last_name(first.target)
    parts = node.body if isinstance(node, ast.For) else [node.elt]
    return name == "_" or not any(name in names(part) for part in parts)


def _is_draw(site: Site, loop: Loop, look: Look) -> bool:
    """Whether a model is run on what no turn changes, and the result is kept with the others."""
    if varies(site.node, loop) or not _is_model(site, look):
        return False
    if not isinstance(loop.node, ast.For):
        return True
    return any(
        each.called == "append" and each.node.args and _holds(each.node.args[0], site)
        for each in loop.calls
    )


def _holds(node: ast.expr, site: Site) -> bool:
    """Whether it is the call, or the name that its statement gives."""
    if any(each is site.node for each in walk(node)):
        return True
    statement = site.statement
    return isinstance(statement, ast.Assign) and not set(names(statement.targets[0])).isdisjoint(
        names(node)
    )


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
