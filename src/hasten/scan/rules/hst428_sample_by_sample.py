"""A loop over the samples of a batch that is already a tensor."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import COLLATE
from hasten.scan.look import Look, called_name
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import calls_in, last_name, loop_of, names, operands
from hasten.scan.vocabulary import words

BATCH = re.compile(
    r"^(batch_?size|bs|bsz|b|n_?batch|num_?samples|batch|n_graphs|num_graphs)$", re.I
)
KERNELS = words(
    "matmul mm bmm einsum softmax sum mean max min argmax cat stack sort topk norm cumsum nonzero"
    " index_select gather mul add narrow interpolate cross_entropy mse_loss zeros conv1d conv2d"
)


class SampleBySample(Rule):
    code = "HST428"
    name = "sample-by-sample"
    why = "Each sample of the batch launches its own small kernels, forward and backward."
    instead = (
        "Write it for the whole batch: broadcast with a mask, `gather`, `scatter_add` or"
        " `index_add` over segments, or `torch.func.vmap`."
    )
    risk = "rounding: sums are taken in another order"
    effort = "an hour"
    nodes = (ast.For,)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Readout(torch.nn.Module):
    def forward(self, x, scope, lengths):
        out = []
        for i in range(x.size(0)):  # !
            out.append(x[i, : lengths[i]].mean(0))
        for start, size in scope:  # !
            out.append(x.narrow(0, start, size).sum(0))
        return torch.stack(out)
""",
        """\
import torch

class Loss(torch.nn.Module):
    def forward(self, preds, targets, batch_size):
        total = 0
        for b in range(batch_size):  # !
            total = total + torch.cdist(preds[b], targets[b]).min(1)[0].sum()
        return total
""",
        """\
import torch

class Net(torch.nn.Module):
    def forward(self, x, sizes):
        for i in range(self.n_layers):
            x = self.layers[i](x)
        counts = []
        for i in range(x.size(0)):
            counts.append(sizes[i])
        return x.sum(0), counts
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        loop = loop_of(site)
        if loop is None or COLLATE.search(site.function.last_name):
            return
        counted = _samples(loop)
        if counted is None:
            is_segment = _takes_segments(loop)
        else:
            is_segment = any(_works_on(each.node, counted) for each in calls_in(loop))
        if is_segment:
            yield Found(site.node, "each sample of the batch is worked on by itself")


def _samples(loop: Loop) -> str | None:
    """The name that counts samples: ``i`` of ``for i in range(x.size(0))``."""
    target, over = loop.header()
    if not isinstance(target, ast.Name) or called_name(over) != "range":
        return None
    bounds = over.args  # type: ignore[attr-defined]
    return target.id if len(bounds) == 1 and _is_batch(bounds[0]) else None


def _is_batch(node: ast.expr) -> bool:
    """``batch_size``, ``x.size(0)`` and ``x.shape[0]``."""
    match node:
        case ast.Call(func=ast.Attribute(attr="size"), args=[ast.Constant(value=0)]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant(value=0)):
            return True
        case ast.Name() | ast.Attribute():
            return bool(BATCH.search(last_name(node)))
    return False


def _works_on(call: ast.Call, counted: str) -> bool:
    """Whether a kernel is launched for what the name counts."""
    if called_name(call) not in KERNELS:
        return False
    return any(
        isinstance(part, ast.Subscript) and counted in names(part.slice)
        for each in operands(call)
        for part in ast.walk(each)
    )


def _takes_segments(loop: Loop) -> bool:
    """``x.narrow(0, start, size)`` with what the loop goes over."""
    target, _ = loop.header()
    if not isinstance(target, ast.Tuple):
        return False
    counted = set(names(target))
    return any(
        called_name(each.node) == "narrow" and counted & set(names(each.node))
        for each in calls_in(loop)
    )
