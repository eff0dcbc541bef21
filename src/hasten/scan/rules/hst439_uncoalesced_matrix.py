"""A sparse matrix that is sorted anew in each product."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

ORDERS = ("coalesce", "to_sparse_csr", "_coalesced_", "to_dense")


class UncoalescedMatrix(Rule):
    code = "HST439"
    name = "uncoalesced-matrix"
    why = "Products with a matrix that is not coalesced sort and add up its entries every time."
    instead = "Call `.coalesce()` once after it is made, or convert it by `.to_sparse_csr()`."
    effort = "a minute"
    calls = ("sparse_coo_tensor", "FloatTensor")
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Graph(torch.nn.Module):
    def __init__(self, i, v, shape):
        super().__init__()
        self.adjacency = self.matrix(i, v, shape)

    def matrix(self, i, v, shape):
        found = torch.sparse.FloatTensor(i, v, shape)  # !
        return found

    def forward(self, x):
        return torch.sparse.mm(self.adjacency, x)
""",
        """\
import torch

class Graph(torch.nn.Module):
    def __init__(self, i, v, shape):
        super().__init__()
        self.adjacency = torch.sparse_coo_tensor(i, v, shape).coalesce()
        self.weights = torch.FloatTensor(v)

    def forward(self, x):
        return torch.sparse.mm(self.adjacency, x)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        if called_name(call) == "FloatTensor" and "sparse" not in look.dotted(call.func):
            return
        if any(word.arg == "is_coalesced" for word in call.keywords):
            return
        if not _is_ordered(site) and _is_multiplied(look):
            yield Found(call, "the sparse matrix is made without `.coalesce()`")


def _is_ordered(site: Site) -> bool:
    """Whether it, or what it is given to, is coalesced in the same function."""
    return not site.function.called.isdisjoint(ORDERS)


def _is_multiplied(look: Look) -> bool:
    return "sparse.mm" in look.text or "spmm" in look.text
