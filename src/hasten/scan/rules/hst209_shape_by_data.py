"""Operations whose result has as many elements as the data says."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, argument, called_name, keyword, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class ShapeByData(Rule):
    code = "HST209"
    name = "shape-by-data"
    why = (
        "How many elements are chosen is known only when the device has computed it: Python waits"
        " for the number, and the shape differs from step to step."
    )
    instead = (
        "Keep the full shape and weigh: `torch.where(mask, x, 0).sum() / mask.sum()`,"
        " `masked_fill`, a reduction with weights."
    )
    risk = "a mean must be divided by the count of the chosen"
    nodes = (ast.Subscript,)
    indexed = (ast.Name, ast.Tuple, ast.Compare, ast.UnaryOp, ast.BinOp, ast.Call)
    calls = (
        "nonzero", "masked_select", "argwhere", "unique", "unique_consecutive", "where",
        "repeat_interleave",
    )  # fmt: skip
    waits = True
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from einops import repeat
from torch import nn

class Loss(nn.Module):
    def forward(self, x, y, mask):
        negative = x[y == 0]  # !
        valid = (y > 0) & ~torch.isnan(x)
        chosen, rest = x[valid], x[~valid, 1]  # !
        x[valid] = chosen * 2  # !
        for_heads = repeat(mask, "b n -> b h n", h=4)
        chosen = chosen + x[for_heads].mean()  # !
        x[valid] += 1  # !
        x[torch.zeros_like(x, dtype=torch.bool).scatter_(0, y, 1)] = negative  # !
        return x[mask].sum() + negative.sum() + rest.sum()  # !
""",
        """\
import torch
from torch import nn
from .kernels import Neighbours

class Distances(nn.Module):
    def forward(self, places):
        edges, lengths = Neighbours.apply(places, self.cutoff)
        there = edges[0] != -1
        return edges[:, there], lengths[there]  # !
""",
        """\
import torch
from torch import nn

class Pick(nn.Module):
    def forward(self, x, mask):
        rows = mask.nonzero()  # !
        rows = torch.nonzero(x > 0, as_tuple=True)  # !
        rows = torch.where(mask)  # !
        kinds = torch.unique(x)  # !
        return torch.masked_select(x, mask), rows, kinds  # !
""",
        """\
import numpy as np
import torch
from torch import nn

class Loss(nn.Module):
    def forward(self, x, y, index, mask):
        x[x < 0] = 0
        x[y == -1] = -1e9
        x[y == -2] = self.filler
        x[y == -3] = float("-inf")
        lengths = y.sum(1).cpu()
        kept = lengths[lengths > 0]
        rows = np.nonzero(np.asarray(kept))
        x = torch.where(mask, x, 0).masked_fill(mask, 1)
        return x[index].sum() + x[:, 0].sum() + x[0].sum() + len(rows)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node = site.node
        if isinstance(node, ast.Call):
            chosen = self._chosen(node, site, look)
        else:
            chosen = self._has_mask(node, site, look) and not _fills(site, look)
        if chosen:
            yield Found(node, f"`{look.source(node)}` waits for how many elements are chosen")

    def _has_mask(self, node: ast.Subscript, site: Site, look: Look) -> bool:
        index = node.slice
        indices = index.elts if isinstance(index, ast.Tuple) else [index]
        if not any(_may_be_mask(each) for each in indices):
            return False
        kind = look.value(node.value, site).kind
        if kind not in ("tensor", "unknown"):
            return False
        return any(
            look.is_mask(each, site) and look.is_on_device(each, site)
            for each in indices
            if _may_be_mask(each)
        ) or self._is_compared(node.value, indices, site, look)

    def _is_compared(
        self, chosen: ast.expr, indices: list[ast.expr], site: Site, look: Look
    ) -> bool:
        """Whether an index of a tensor is a comparison of which it is not known of what: of a
        plain number it would make no index."""
        owner = site.function.owner
        in_module = owner is not None and look.values.is_module(owner)
        if look.prepares_data(site) or not (in_module or look.is_on_device(chosen, site)):
            return False
        return any(
            isinstance(given := look.values.given(each, site.function), ast.Compare)
            and look.value(given, site).kind == "unknown"
            for each in indices
            if isinstance(each, ast.Name | ast.Compare)
        )

    def _chosen(self, call: ast.Call, site: Site, look: Look) -> bool:
        name = called_name(call)
        of_torch = look.is_of_torch(call)
        if name == "where" and not (of_torch and len(call.args) == 1 and not call.keywords):
            return False
        if name == "repeat_interleave" and not self._repeats_by_data(call, of_torch, site, look):
            return False
        read = call.args[0] if of_torch and call.args else receiver(call)
        return look.is_on_device(read, site)

    def _repeats_by_data(self, call: ast.Call, of_torch: bool, site: Site, look: Look) -> bool:
        repeats = argument(call, 1 if of_torch else 0, "repeats")
        return keyword(call, "output_size") is None and look.is_on_device(repeats, site)


def _may_be_mask(index: ast.expr) -> bool:
    return isinstance(index, ast.Name | ast.Compare | ast.UnaryOp | ast.BinOp | ast.Call)


def _fills(site: Site, look: Look) -> bool:
    """``x[mask] = 0`` with a plain number is one launch without a wait."""
    statement = site.statement
    if not isinstance(site.node.ctx, ast.Store) or not isinstance(statement, ast.Assign):
        return False
    kind = look.value(statement.value, site).kind
    may_be_number = isinstance(statement.value, ast.Name | ast.Attribute)
    return kind == "number" or (kind == "unknown" and may_be_number)
