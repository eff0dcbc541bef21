"""A kernel for each column, axis or feature."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import is_bound_in, names
from hasten.scan.turns import hands_on_tensor, over_moments
from hasten.scan.vocabulary import words

OF_TENSORS = words("long float half unsqueeze view expand contiguous permute detach int")


class ColumnByColumn(Rule):
    code = "HST409"
    name = "column-by-column"
    why = (
        "Each turn of the loop launches kernels for one slice of a tensor; with many columns the"
        " launches take longer than the arithmetic."
    )
    instead = (
        "Work on all columns at once: one call on the whole tensor, columns of a kind gathered by"
        " index, or one embedding table with offsets."
    )
    risk = "rounding: sums are taken in another order"
    effort = "an hour"
    nodes = (ast.Subscript,)
    in_loops = True
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Activate(torch.nn.Module):
    def forward(self, x):
        parts, start = [], 0
        for width in self.widths:
            end = start + width
            parts.append(torch.tanh(x[:, start:end]))  # !
            start = end
        return torch.cat(parts, dim=1)
""",
        """\
import torch

class Embed(torch.nn.Module):
    def forward(self, x):
        columns = []
        for i, size in enumerate(self.sizes):
            columns.append(self.embeddings[i](x[:, i].long()))  # !
        return torch.cat(columns, dim=1)

def lookup(X, tables, places):
    return [tables[each](X[:, places[each] : places[each] + 1].long()) for each in tables]  # !

class Model(torch.nn.Module):
    def forward(self, X):
        return lookup(X, self.tables, self.places)
""",
        """\
import torch

class Layer(torch.nn.Module):
    def forward(self, x, y):
        for t in range(x.size(1)):
            self.h = self.cell(x[:, t], self.h)
        losses = [self.losses[i](x[:, i], y[:, i]) for i in range(self.n_tasks)]
        first = x[:, 0]
        for d in range(self.reach):
            first = torch.maximum(first, x[:, max(-d, 0) : min(9 - d, 9)])
        hits = [(x[:, :k] == y).sum() for k in self.ranks]
        parts = [x[:, i] for i in range(x.size(1))]
        for tile_start, tile_end in self.tiles:
            parts.append(self.net(x[:, :, tile_start:tile_end]))
        return torch.tanh(x), losses, first, hits, parts
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node: ast.Subscript = site.node
        if site.loop is None or isinstance(site.loop.node, ast.While):
            return
        loop = _counted_columns(node.slice, site.loop)
        if loop is None or over_moments(loop) or not _is_tensor(site, look):
            return
        if any(called_name(each) in ("max", "min") for each in walk(node.slice)):
            return  # a window that is moved over the whole and cut at its ends
        if hands_on_tensor(loop, look):
            return
        if isinstance(node.ctx, ast.Store) and not isinstance(site.statement, ast.AugAssign):
            return
        if _is_only_kept(site) or any(BIT_BY_BIT.search(each) for each in names(node.slice)):
            return
        often = Heat.ONCE if loop.outer is not None else None
        yield Found(site.statement, f"`{look.source(node)}` is worked on by itself", least=often)


BIT_BY_BIT = re.compile(r"tile|chunk|patch|crop")
"""Of what is taken apart since the whole does not fit."""


def _is_only_kept(site: Site) -> bool:
    """Whether the slice goes into a list as it is, which launches nothing."""
    parent = site.parent
    if isinstance(parent, ast.ListComp | ast.GeneratorExp):
        return parent.elt is site.node
    return isinstance(parent, ast.Call) and called_name(parent) == "append"


def _is_tensor(site: Site, look: Look) -> bool:
    kind = look.value(site.node.value, site).kind
    if kind != "unknown":
        return kind == "tensor"
    if isinstance(site.parent, ast.Attribute) and site.parent.attr in OF_TENSORS:
        return True
    return isinstance(site.parent, ast.expr) and look.value(site.parent, site).is_tensor


def _is_beginning(index: ast.expr) -> bool:
    """``:k``, which is no column of its own."""
    return isinstance(index, ast.Slice) and index.lower is None


def _counted_columns(index: ast.expr, loop: Loop) -> Loop | None:
    """Of ``[:, i]`` or ``[..., a:b]``, the loop that counts."""
    if not isinstance(index, ast.Tuple) or len(index.elts) < 2:
        return None
    first, *others = index.elts
    is_all = isinstance(first, ast.Slice) and first.lower is None and first.upper is None
    if not is_all and not (isinstance(first, ast.Constant) and first.value is Ellipsis):
        return None
    counted = {name for each in others if not _is_beginning(each) for name in names(each)}
    return next(
        (each for each in loop.outwards() if any(is_bound_in(name, each) for name in counted)), None
    )
