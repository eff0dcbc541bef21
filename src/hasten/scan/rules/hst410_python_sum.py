"""Python's ``sum`` over many tensors."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name

TENSORS = re.compile(r"^(outputs?|preds?|predictions|logits|probs?|probas?|embeddings)(_list)?$")


class PythonSum(Rule):
    code = "HST410"
    name = "python-sum-of-tensors"
    why = "It launches one addition for each tensor of the list, and as many backward."
    instead = "Add inside of one kernel: `torch.stack(parts).sum()`, or sum before splitting."
    risk = "rounding: sums are taken in another order"
    calls = ("sum",)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def forward(x, columns):
    parts = []
    for start, end in columns:
        parts.append(torch.nn.functional.cross_entropy(x[:, start:end], x[:, end]))
    return sum(parts)  # !

def average(outputs):
    return sum(outputs) / len(outputs)  # !

class Ensemble(torch.nn.Module):
    def forward(self, x):
        return average([each(x) for each in self.members])
""",
        """\
import torch

def forward(x, y):
    losses = [torch.nn.functional.mse_loss(x, y), torch.nn.functional.l1_loss(x, y)]
    sizes = []
    for each in x:
        sizes.append(len(each))
    return sum(losses), sum(sizes), torch.sum(x), x.sum()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        if not isinstance(call.func, ast.Name) or len(call.args) != 1:
            return
        if not isinstance(call.args[0], ast.Name):
            return
        name = call.args[0].id
        added = [
            each.node.args[0]
            for each in site.function.calls
            if each.loop is not None
            and each.called == "append"
            and last_name(receiver(each.node)) == name
            and each.node.args
        ]
        if any(look.value(each, site).kind == "tensor" for each in added) or _is_mean(site, name):
            yield Found(call, f"`sum({name})` adds tensors one by one")


def _is_mean(site: Site, name: str) -> bool:
    """``sum(outputs) / len(outputs)`` of what is handed in by a name of tensors."""
    parent = site.parent
    if not isinstance(parent, ast.BinOp) or called_name(parent.right) != "len":
        return False
    return name in site.function.parameters and bool(TENSORS.search(name))
