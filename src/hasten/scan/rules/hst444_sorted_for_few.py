"""All of a tensor sorted, for the first or last few of it or for a rank."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, is_constant, keyword, receiver
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import following, last_name


class SortedForFew(Rule):
    code = "HST444"
    name = "sorted-for-few"
    why = "A sort of all scores takes several passes and gives an index as large as the scores."
    instead = (
        "Take the first ones by `topk`; for the rank of one score count the larger ones:"
        " `(scores > score).sum(-1)`."
    )
    risk = "equal scores may come in another order"
    calls = ("sort", "argsort")
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def predict(model, h, r, k):
    scores = model(h, r)
    values, indices = scores.sort(descending=True)  # !
    return values[:, :k], indices[:, :k]

def best(scores, k):
    order = torch.argsort(scores, dim=-1, descending=True)[:, :k]  # !
    first = scores.sort(dim=1, descending=True)[1][:, 0]  # !
    last = torch.argsort(scores, dim=-1)[:, -k:]  # !
    return order, first, last, torch.sort(scores, dim=1)[0][:, -1]  # !
""",
        """\
import torch

def rank(logits: torch.Tensor, truth):
    order = torch.argsort(logits, descending=True)  # !
    return torch.where(order == truth)[1].float().mean()
""",
        """\
import torch

def sparse(x, k, names, rows):
    values, order = torch.sort(x, descending=True)
    total = values.cumsum(-1)
    first = values[:, :k]
    names.sort()
    rows = sorted(rows)[:k]
    lengths, index = x.sort(descending=True)
    return first, total, x[index], lengths[:2]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        if not _is_of_tensor(call, site, look):
            return
        parts = (each for each in walk(site.statement) if _sorts(each, call))
        if any(map(_takes_few, parts)) or _few_are_used(site):
            yield Found(call, f"`{look.source(call.func)}` sorts all, and the first are used")


def _is_of_tensor(call: ast.Call, site: Site, look: Look) -> bool:
    """Lists are sorted in reverse, frames ascending; ``descending`` is torch's own word."""
    if keyword(call, "descending") is not None or look.is_of_torch(call):
        return True
    return look.value(receiver(call), site).is_tensor


def _few_are_used(site: Site) -> bool:
    """Whether the statements below read only the first of each name that it gives."""
    statement = site.statement
    if not isinstance(statement, ast.Assign) or not _is_result(statement.value, site.node):
        return False
    targets = [each for target in statement.targets for each in _parts(target)]
    if not all(isinstance(each, ast.Name) for each in targets):
        return False
    given = {last_name(each) for each in targets} - {"_"}
    below = [each for statement in following(site) for each in walk(statement)]
    read = sum(isinstance(each, ast.Name) and each.id in given for each in below)
    return 0 < read == sum(_reads_few(each, given) for each in below)


def _sorts(node: ast.AST, call: ast.Call) -> bool:
    """Whether it is a part of what the call gives: ``x.sort()[1][:, :k]``."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node is call


def _is_result(node: ast.expr, call: ast.Call) -> bool:
    """The call itself, its indices or its values."""
    match node:
        case ast.Subscript(value=inner, slice=ast.Constant(value=0 | 1)):
            return inner is call
        case ast.Attribute(value=inner, attr="indices" | "values"):
            return inner is call
    return node is call


def _parts(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple) else [target]


def _reads_few(node: ast.AST, given: set[str]) -> bool:
    """Where only the first of a name are read, or where it is compared to find a rank."""
    match node:
        case ast.Subscript(value=ast.Name(id=name)):
            return name in given and _takes_few(node)
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq()]):
            return name in given
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="eq")):
            return name in given
    return False


def _takes_few(node: ast.AST) -> bool:
    """``[:k]``, ``[:, :k]``, ``[..., 0]``."""
    if not isinstance(node, ast.Subscript):
        return False
    index = node.slice
    if not isinstance(index, ast.Tuple):
        return _is_first(index) and not is_constant(index, 0) and not is_constant(index, 1)
    *others, last = index.elts
    return _is_first(last) and all(isinstance(each, ast.Slice | ast.Constant) for each in others)


def _is_first(index: ast.expr) -> bool:
    match index:
        case ast.Slice(lower=None, upper=ast.expr(), step=None):
            return True
        case ast.Slice(lower=ast.UnaryOp(op=ast.USub()), upper=None, step=None):
            return True
        case ast.Constant(value=int()) | ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            return True
    return False
