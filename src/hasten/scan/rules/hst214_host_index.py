"""An index on the host for a tensor on the device."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class HostIndex(Rule):
    code = "HST214"
    name = "host-index"
    why = "The index is copied to the device first, and Python waits for it."
    instead = "Make the index on the device: `torch.arange(n, device=x.device)`."
    risk = "a random permutation comes from the device's generator and is another than before"
    nodes = (ast.Subscript,)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
import torch
from torch import nn

class Loss(nn.Module):
    def forward(self, x, y):
        rows = torch.arange(len(x))
        picked = x[rows, y]  # !
        order = np.random.permutation(len(x))
        other = self.net(x)[order]  # !
        best = x.argmax(dim=1)
        picked = picked + x[[i for i in range(len(x))], best]  # !
        return x[torch.arange(len(x)), y] + picked + other  # !
""",
        """\
import numpy as np
import torch
from torch import nn

class Loss(nn.Module):
    def forward(self, x, y):
        rows = torch.arange(len(x), device=x.device)
        table = np.zeros(3)
        return x[rows, y], table[np.arange(3)], x.cpu()[torch.arange(3)], x[:, 0]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node = site.node
        index = node.slice
        indices = index.elts if isinstance(index, ast.Tuple) else [index]
        for each in indices:
            if isinstance(each, ast.ListComp) and any(
                look.is_on_device(other, site) for other in (node.value, *indices)
            ):
                yield Found(node, f"`{look.source(each)}` is copied to the device to be an index")
                return
            if not isinstance(each, ast.Name | ast.Call | ast.Compare):
                continue
            value = look.value(each, site)
            if value.where == "host" and value.kind in ("tensor", "array"):
                if look.is_on_device(node.value, site):
                    yield Found(
                        node, f"`{look.source(each)}` is copied to the device to be an index"
                    )
                return
