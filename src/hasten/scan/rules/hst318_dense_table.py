"""A dense table of all pairs of things, of which there are many of each."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, keyword, names_in
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import following, last_name

COUNT = re.compile(
    r"(^|_)(n|num|nr|number|tot|total|count|size|len|nb)(_|$)|^n[a-z]", re.IGNORECASE
)
MANY = re.compile(
    r"(^|_)n?(users?|items?|ent|ents|entity|entities|rel|rels|relations?|nodes?|vocab|words"
    r"|triples?|facts?|docs?|documents?|products?|movies?|atoms?|points?|edges?)(_|$)",
    re.IGNORECASE,
)
"""What a data set has any number of."""


class DenseTable(Rule):
    code = "HST318"
    name = "dense-table-of-pairs"
    why = (
        "It has a place for every pair, though few are ever used: memory grows with the product of"
        " two counts of the data."
    )
    instead = (
        "Keep the pairs that there are: a sparse matrix, index tensors with `searchsorted`, or rows"
        " computed in chunks."
    )
    risk = "none if the same entries are read"
    effort = "a day"
    calls = ("zeros", "empty", "full", "ones", "zeros_like", "full_like")
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
import torch
from torch import empty
from torch.nn import Parameter

class Projections(torch.nn.Module):
    def __init__(self, n_rel, n_ent, dim, num_nodes):
        super().__init__()
        self.projected = Parameter(empty(size=(n_rel, n_ent, dim)))  # !
        self.adjacency = torch.zeros(num_nodes, num_nodes)  # !

def interactions(data):
    return np.zeros((data.n_users, data.n_items), dtype=np.int8)  # !
""",
        """\
import torch

class Collector:
    def collect_batch(self, scores: torch.Tensor, users, items):
        marked = torch.zeros_like(scores)  # !
        marked[users, items] = 1
        return marked.gather(1, scores.topk(10).indices)
""",
        """\
import numpy as np
import torch

class Net(torch.nn.Module):
    def __init__(self, n_heads, n_tokens, num_classes, n_items, dim):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(n_heads, n_tokens, n_tokens))
        self.confusion = torch.zeros(num_classes, num_classes)
        self.items = torch.empty(n_items, dim)

    def forward(self, x, lengths, max_n_nodes):
        near = torch.zeros(max_n_nodes, max_n_nodes)
        out = torch.zeros_like(x)
        out[:, lengths] = 1
        for i, length in enumerate(lengths):
            out[i, :length] = x[i, :length]
        return out
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        if not call.args and not call.keywords:
            return
        counts = [each for each in _shape(call) if _is_count_of_many(each)]
        if len(counts) > 1:
            sizes = " by ".join(f"`{look.source(each)}`" for each in counts[:2])
            yield Found(call, f"a table of {sizes} is dense", least=Heat.ONCE)
        elif _is_marked_by_pairs(site):
            yield Found(call, "a dense table is made to mark some pairs")


def _shape(call: ast.Call) -> list[ast.expr]:
    """Sizes that it is given, one by one or in a tuple."""
    if called_name(call).endswith("_like"):
        return []
    given = keyword(call, "size") or keyword(call, "shape")
    sizes = [given] if given is not None else call.args
    if sizes and isinstance(first := sizes[0], ast.Tuple | ast.List):
        return first.elts
    return sizes


def _is_count_of_many(node: ast.expr) -> bool:
    """``n_users``, ``self.num_entities``, ``len(items)``."""
    if isinstance(node, ast.Constant | ast.Tuple | ast.List):
        return False
    name = last_name(node)
    if name:
        is_padding = name.startswith("max")
        return not is_padding and bool(COUNT.search(name)) and bool(MANY.search(name))
    return called_name(node) == "len" and any(MANY.search(each) for each in names_in(node))


def _is_marked_by_pairs(site: Site) -> bool:
    """Whether the next statement is ``table[rows, columns] = 1``."""
    statement = site.statement
    if not isinstance(statement, ast.Assign) or statement.value is not site.node:
        return False
    after = next(iter(following(site)), None)
    if not isinstance(after, ast.Assign) or not isinstance(
        target := after.targets[0], ast.Subscript
    ):
        return False
    place = target.slice
    return (
        last_name(target.value) == last_name(statement.targets[0]) != ""
        and isinstance(place, ast.Tuple)
        and len(place.elts) == 2
        and all(isinstance(each, ast.Name | ast.Attribute) for each in place.elts)
    )
