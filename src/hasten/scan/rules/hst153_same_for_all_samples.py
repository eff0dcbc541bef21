"""What comes out the same for every sample, made for each of them."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Severity
from hasten.scan.heat import SAMPLE_FUNCTIONS, Heat
from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import COMPREHENSIONS, Function, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import is_dataset
from hasten.scan.trace import root_name
from hasten.scan.vocabulary import words

SAMPLED = SAMPLE_FUNCTIONS | {"__call__", "get"}
"""What a loader calls for each sample, where the class is a data set or a transform."""
PLAIN = words(
    "enumerate zip len range list dict set sorted tuple sum min max int float str bool isinstance"
    " getattr frozenset abs round reversed"
)
OF_HELD = words(
    "items keys values get tolist astype to float long int double bool numpy view reshape index"
    " unsqueeze squeeze flatten transpose permute lower upper split strip copy clone union"
)
"""Methods that give the same for the same."""
OF_FRAMES = words(
    "groupby sort_values drop_duplicates set_index value_counts merge pivot_table to_dict"
)
"""Methods of a frame that go through all its rows."""
EMPTY = words(
    "zeros ones empty full zeros_like ones_like full_like device dtype float32 float64 int64 int32"
    " bool_ uint8 manual_seed is_tensor Size Generator no_grad get_worker_info seed RandomState"
    " default_rng arange load loadtxt genfromtxt fromfile"
)
"""What is made to be filled, is no work, or is no value."""
CHANGES = words("append extend update pop insert add remove clear sort setdefault shuffle")
CHANCE = ("random", "rand", "randn", "randint", "randperm", "multinomial", "bernoulli", "normal")


class SameForAllSamples(Rule):
    code = "HST153"
    name = "made-again-for-each-sample"
    why = (
        "It is made of what the data set or the transform holds, and of nothing of the sample: the"
        " same comes out for each of them, and the workers make it a million times."
    )
    instead = "Make it once in `__init__`, keep it as an attribute, and use that."
    verify = "Compare samples of both versions."
    nodes = (ast.FunctionDef,)
    least = Heat.ONCE
    severity: ClassVar[Severity | None] = "medium"
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
import pandas as pd
import torch
from torch.utils.data import Dataset

class Table(Dataset):
    def __getitem__(self, index):
        places = {name: i for i, name in enumerate(self.names)}  # !
        known = [each for each in self.columns if each in self.known]  # !
        mask = torch.tensor([each in known for each in self.columns])  # !
        grid = np.meshgrid(np.arange(self.height), np.arange(self.width))  # !
        said = self.said
        kinds = [i for i, name in enumerate(said["names"]) if said["kinds"].get(name) == "a"]  # !
        kinds = pd.get_dummies(self.frame["kind"]).to_numpy()[index]  # !
        rows = self.frame.groupby(self.keys).groups[self.names[index]]  # !
        return self.x[index], places, mask, grid, kinds, rows

class CropTransform:
    def __call__(self, image):
        return (image - torch.tensor(self.mean)) / self.std  # !
""",
        """\
import numpy as np
import torch
from torch.utils.data import Dataset

class Table(Dataset):
    def __init__(self):
        self.places = {name: i for i, name in enumerate(self.names)}

    def __getitem__(self, index):
        out = torch.zeros(self.size)
        order = np.arange(self.size)
        order[0] = index
        drawn = np.random.permutation(np.arange(self.size))
        parts = [each[index] for each in self.parts]
        few = [each for each in (1, 2)]
        if self.table is None:
            self.table = np.arange(self.size)
        found = []
        found.append(self.x[index])
        found.append([f"{each}_x" for each in self.names])
        return out, order, drawn, parts, few, found, [part(image) for part in self.parts]

class Meter:
    def __call__(self):
        return np.array(self.values)

class Layers:
    def __getitem__(self, key):
        return self.layers[key][np.argsort(self.order)]

class Flip(torch.nn.Module):
    def forward(self, x):
        return x * torch.tensor(self.sign)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node: ast.FunctionDef = site.node
        if node.name not in SAMPLED:
            return
        function = next((each for each in look.outline.functions if each.node is node), None)
        if function is None or look.heats.of_role(function) < Heat.ELEMENT:
            return
        if node.name != "__call__" and not is_dataset(function.owner):
            return
        for made in _Sameness(function, look).found():
            what = look.source(made)
            yield Found(made, f"`{what}` comes out the same for every sample")


class _Sameness:
    """What of a function depends on nothing but what its object holds."""

    def __init__(self, function: Function, look: Look) -> None:
        self._function, self._look = function, look
        self._changed = set(_changed(function.node))
        self._same = {
            name: None
            for name, bindings in function.bindings.items()
            if len(bindings) == 1
            and bindings[0].how == "value"
            and name not in self._changed
            and name not in function.parameters
        }

    def found(self) -> Iterator[ast.expr]:
        open_: list[ast.AST] = list(reversed(getattr(self._function.node, "body", [])))
        while open_:
            node = open_.pop()
            if isinstance(node, ast.Assign) and not self._may_be_kept(node):
                continue
            if isinstance(node, ast.Raise | ast.Assert | ast.FunctionDef | ast.Lambda):
                continue
            if isinstance(node, ast.expr) and self._is_work(node) and self._is_same(node, set()):
                yield node
            elif not isinstance(node, COMPREHENSIONS):
                open_ += reversed(list(ast.iter_child_nodes(node)))

    def _may_be_kept(self, node: ast.Assign) -> bool:
        """Not what is kept already, nor what the function changes afterwards."""
        target = node.targets[0]
        return not isinstance(target, ast.Attribute) and not (
            isinstance(target, ast.Name) and target.id in self._changed
        )

    def _is_work(self, node: ast.expr) -> bool:
        match node:
            case ast.ListComp(elt=ast.JoinedStr()):
                return False
            case ast.ListComp(generators=[first, *_]) | ast.DictComp(generators=[first, *_]):
                return not isinstance(first.iter, ast.Constant | ast.List | ast.Tuple)
            case ast.Call(func=ast.Attribute(value=held, attr=name)) if name in OF_FRAMES:
                return _holds(held)
            case ast.Call():
                return self._is_numeric(node) and any(map(_holds, node.args))
        return False

    def _is_numeric(self, call: ast.Call) -> bool:
        called, name = self._look.dotted(call.func), called_name(call)
        makes_value = name not in EMPTY and (name[:1].islower() or name.endswith("Tensor"))
        if called.startswith("pandas."):
            return makes_value and not name.startswith("read_")
        return makes_value and called.startswith(("numpy.", "torch."))

    def _is_same(self, node: ast.AST, own: set[str]) -> bool:
        """``own`` are names that a comprehension binds."""
        for each in walk(node):
            if isinstance(each, ast.comprehension):
                own = own | {name.id for name in walk(each.target) if isinstance(name, ast.Name)}
        return all(self._depends_not(each, own) for each in walk(node))

    def _depends_not(self, node: ast.AST, own: set[str]) -> bool:
        match node:
            case ast.Call():
                return self._gives_same(node)
            case ast.Name(id=name):
                if name == "self" or name in own:
                    return True
                if name in self._function.bindings:
                    return name in self._same and self._is_same_name(name)
                return name not in self._function.parameters
            case ast.Lambda() | ast.Await() | ast.Yield() | ast.YieldFrom() | ast.NamedExpr():
                return False
        return True

    def _is_same_name(self, name: str) -> bool:
        given = self._function.bindings[name][0].value
        del self._same[name]  # no name is asked about within itself
        is_same = given is not None and self._is_same(given, set())
        if is_same:
            self._same[name] = None
        return is_same

    def _gives_same(self, call: ast.Call) -> bool:
        called = self._look.dotted(call.func)
        if called.startswith(("numpy.", "torch.", "pandas.")):
            return not any(part in called.split(".") for part in CHANCE)
        name = called_name(call)
        if isinstance(call.func, ast.Name):
            return name in PLAIN
        return name in OF_HELD or name in OF_FRAMES


def _holds(node: ast.AST) -> bool:
    """Whether something of the object stands in it: of constants nobody makes a table."""
    return any(
        isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
        for each in walk(node)
    )


def _changed(function: ast.AST) -> Iterator[str]:
    """Names of what is written into: ``x[0] = 1``, ``x += 1``, ``x.append(1)``."""
    for each in walk(function):
        held: ast.AST | None = None
        match each:
            case ast.Subscript(ctx=ast.Store() | ast.Del(), value=held):
                pass
            case ast.AugAssign(target=held):
                pass
            case ast.Call(func=ast.Attribute(value=held, attr=name)) if (
                name in CHANGES or name.endswith("_")
            ):
                pass
            case _:  # what a pattern has bound stays bound where its guard says no
                held = None
        root = root_name(held)
        if root is not None:
            yield root.id
