"""A tensor that is made of a list of arrays."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat, collates
from hasten.scan.look import Look, assigned, called_name, is_own_attribute, is_said_above
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import names, root_name


class TensorOfArrays(Rule):
    code = "HST127"
    name = "tensor-of-list-of-arrays"
    why = "Every number of every array is turned into a Python object and read from it again."
    instead = "Join them first: `torch.from_numpy(np.stack(arrays))`, or `torch.stack(tensors)`."
    effort = "a minute"
    verify = "Compare the tensors of both versions, with their types."
    calls = ("tensor", "as_tensor", "Tensor", "FloatTensor", "LongTensor")
    least = Heat.ONCE
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
import torch

def gather(count):
    rows = []
    for i in range(count):
        row = np.full(3, i)
        rows.append(row)
    both = torch.tensor([np.zeros(3) for _ in range(count)])  # !
    return torch.FloatTensor(rows), both  # !

def collate(batch, starts, ends):
    parts = [row[start:end] for row, start, end in zip(batch, starts, ends)]
    return torch.tensor(parts, dtype=torch.float)  # !

class Agent:
    def update(self, batch):
        rewards = torch.tensor([each["reward"] for each in batch], device=self.device)  # !
        actions = torch.as_tensor([each.action for each in batch])  # !
        states = torch.tensor([each[0] for each in self.steps])  # !
        others = torch.tensor([state for state, _, _ in batch])  # !
        done = torch.tensor([1.0 if each.done else 0.0 for each in batch])  # !
        self.loss(rewards, actions, states, others, done).backward()
""",
        """\
import numpy as np
import torch

def gather(count):
    rows, numbers = [], []
    for i in range(count):
        rows.append(np.full(3, i))
        numbers.append(i)
    return torch.from_numpy(np.stack(rows)), torch.tensor(np.array(rows)), torch.tensor(numbers)

def collate(batch):
    return torch.tensor([each["label"] for each in batch])

class Waves(torch.nn.Module):
    def __init__(self, count):
        self.waves = torch.tensor([np.cos(i * np.arange(3)) for i in range(count)])

def collate_parts(batch, starts, ends):
    parts = [row[start:end] for row, start, end in zip(batch, starts, ends)]
    return torch.tensor(np.array(parts))

def golden(count):
    return torch.tensor([i * (np.sqrt(5) + 1) / 2 for i in range(count)])

def statistics(batch):
    return torch.tensor([each["reward"] for each in batch]).mean()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        first = site.node.args[0] if site.node.args else None
        if not isinstance(first, ast.Name | ast.ListComp) or not look.is_of_torch(site.node):
            return
        if isinstance(first, ast.ListComp) and _takes_parts(first) and not look.prepares_data(site):
            if not is_said_above(site):
                message = f"`{look.source(first)}` is read from Python objects, one by one"
                yield Found(_place(site), message, least=Heat.STEP)
            return
        value = look.value(first, site)
        if value.kind != "list" or site.function.last_name == "__init__":
            return
        if value.items in ("array", "tensor") or (
            self._gathers_arrays(first, site, look) or self._cuts_samples(first, site, look)
        ):
            yield Found(site.node, f"`{look.source(first)}` is a list of arrays, read by number")

    def _cuts_samples(self, name: ast.expr, site: Site, look: Look) -> bool:
        """Whether a collate function has cut it out of the samples: ``[x[a:b] for x, a, b in
        parts]``."""
        if not collates(site.function):
            return False
        match look.values.given(name, site.function):
            case ast.ListComp(elt=ast.Subscript(slice=ast.Slice()), generators=[part]):
                return called_name(part.iter) == "zip"
        return False

    def _gathers_arrays(self, name: ast.expr, site: Site, look: Look) -> bool:
        """Whether arrays are appended to it in the same function."""
        return isinstance(name, ast.Name) and any(
            each.called == "append"
            and isinstance(each.node.func, ast.Attribute)
            and isinstance(each.node.func.value, ast.Name)
            and each.node.func.value.id == name.id
            and look.value(each.node.args[0], each).kind == "array"
            for each in site.function.calls
            if len(each.node.args) == 1
        )


def _place(site: Site) -> ast.AST:
    """The statement where it makes a dict of several."""
    return site.statement if isinstance(assigned(site), ast.Dict) else site.node


def _takes_parts(made: ast.ListComp) -> bool:
    """``[each["reward"] for each in batch]``, ``[each.reward for each in batch]``, and the same of
    what is unpacked or decided upon."""
    if len(made.generators) != 1 or made.generators[0].ifs:
        return False
    loop = made.generators[0]
    if not isinstance(loop.iter, ast.Name) and not is_own_attribute(loop.iter):
        return False
    taken, target = made.elt, loop.target
    match taken:
        case ast.IfExp(test=test, body=ast.Constant(), orelse=ast.Constant()):
            taken = test
    match taken, target:
        case ast.Name(id=name), ast.Tuple(elts=[_, _, *_]):
            return name in names(target)
        case (
            ast.Subscript(value=held, slice=ast.Constant()) | ast.Attribute(value=held),
            ast.Name(id=each),
        ):
            root = root_name(held)
            return root is not None and root.id == each
    return False
