"""Operations that make room for as many as the largest index says."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, argument, called_name, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.vocabulary import words


class SizeByLargestIndex(Rule):
    code = "HST222"
    name = "size-by-largest-index"
    why = (
        "Without a size, the largest index is read from the device to know how large the result is:"
        " that waits until everything before it is computed."
    )
    instead = (
        "Say how many there are: `scatter(x, index, dim_size=n)`, `one_hot(y, num_classes=n)`,"
        " `global_add_pool(x, batch, size=n)`; `torch.zeros(n).index_add_` instead of `bincount`."
    )
    calls = (
        "scatter", "scatter_add", "scatter_sum", "scatter_mean", "scatter_max", "scatter_min",
        "scatter_softmax", "one_hot", "bincount", "global_add_pool", "global_mean_pool",
        "global_max_pool", "to_dense_batch", "degree",
    )  # fmt: skip
    waits = True
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch import nn
from torch_scatter import scatter, scatter_mean

class Messages(nn.Module):
    def forward(self, x, edges, batch):
        sent = scatter(x[edges[0]], edges[1], dim=0)  # !
        return scatter_mean(sent, batch, dim=0)  # !
""",
        """\
import torch
import torch.nn.functional as F
from torch_geometric.nn import global_add_pool

def loss_of(logits: torch.Tensor, labels: torch.Tensor, graph: torch.Tensor):
    pooled = global_add_pool(logits, graph)  # !
    wanted = F.one_hot(labels)  # !
    counts = torch.bincount(labels, minlength=10)  # !
    return ((pooled - wanted) / counts).sum()
""",
        """\
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch_scatter import scatter, scatter_mean
from torch_geometric.nn import global_add_pool

class Messages(nn.Module):
    def forward(self, x, edges, batch, n, names, ax):
        sent = scatter(x[edges[0]], edges[1], dim=0, dim_size=len(x))
        sent = scatter_mean(sent, batch, 0, None, n) + global_add_pool(sent, batch, n)
        sent = sent.scatter(0, batch, 1.0) + torch.scatter(sent, 0, batch, x)
        ax.scatter(names, names)
        return sent + F.one_hot(batch, 10) + np.bincount(names)[0]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        index = _index(call, look)
        if index is None or look.prepares_data(site):
            return
        value = look.value(index, site)
        if value.where != "host" and value.kind in ("tensor", "batch", "unknown"):
            yield Found(call, f"`{look.source(call)}` waits for the largest of its indices")


SIZES = ("dim_size", "num_nodes", "num_classes", "size", "num_segments", "batch_size", None)
"""Names of arguments that say it; None for what cannot be seen."""
PLACES = {"one_hot": 1, "degree": 1, "to_dense_batch": 4}
"""Where the size stands among the arguments; of pools and of sums over groups by default."""
OF_POOL, OF_SUM = 2, 3
OF_FIRST = words("one_hot bincount degree")


def _index(call: ast.Call, look: Look) -> ast.expr | None:
    """What says how large the result is; None where a size is given, or for another function."""
    name, of_torch = called_name(call), look.is_of_torch(call)
    if name == "bincount":
        return argument(call, 0, "input") if of_torch else None
    is_sum = name.startswith("scatter")
    if is_sum and (of_torch or not _is_function(call, look)):
        return None
    place = PLACES.get(name, OF_SUM if is_sum else OF_POOL)
    if len(call.args) > place or any(word.arg in SIZES for word in call.keywords):
        return None
    return argument(call, 0 if name in OF_FIRST else 1, "index")


def _is_function(call: ast.Call, look: Look) -> bool:
    """And no method of a tensor or of a plot."""
    held = receiver(call)
    return held is None or (isinstance(held, ast.Name) and held.id in look.outline.imports)
