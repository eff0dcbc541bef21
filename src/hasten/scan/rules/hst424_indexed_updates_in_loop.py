"""A tensor that is gathered from and written to by index, over and over."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import is_bound_in


class IndexedUpdatesInLoop(Rule):
    code = "HST424"
    name = "indexed-updates-in-loop"
    why = "Each turn launches kernels that gather and scatter; hundreds of turns do little else."
    instead = (
        "Compile the body of the loop or capture it in a CUDA graph; or write it as a convolution"
        " or a sparse product."
    )
    risk = "rounding: sums are taken in another order"
    effort = "an hour"
    nodes = (ast.Subscript,)
    in_loops = True
    indexed = (ast.Name,)
    least = Heat.ONCE
    severity = "low"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def diffuse(neighbors, centers, n_iter, device):
    heat = torch.zeros(1000, device=device)
    index = neighbors[0].long()
    for i in range(n_iter):
        heat[index] += 1  # !
        near = heat[neighbors]
        heat[centers] = near.sum(0)  # !
    return heat
""",
        """\
import torch

def fill(parts, n, device):
    out = torch.zeros(n, 3, device=device)
    for i in range(n):
        out[i] = parts[i]
        out[:, 0] += 1
        out["a"] = 2
    return out
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        target: ast.Subscript = site.node
        if site.loop is None or not isinstance(target.ctx, ast.Store):
            return
        index = target.slice
        if not isinstance(index, ast.Name) or is_bound_in(index.id, site.loop):
            return
        if called_name(site.loop.header()[1]) not in ("range", "trange"):
            return
        if look.value(index, site).kind in ("number", "text"):
            return
        if look.value(target.value, site).is_tensor and not look.is_rare(site):
            yield Found(site.statement, f"`{look.source(target)}` is written in every turn")
