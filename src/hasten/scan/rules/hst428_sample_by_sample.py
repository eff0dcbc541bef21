"""A loop over the samples of a batch that is already a tensor."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, is_constant, receiver
from hasten.scan.models import is_model_call
from hasten.scan.nodes import walk
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import calls_in, derived, last_name, loop_of, names, operands
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

def snr_loss(logits, labels, lengths):
    found = torch.zeros(len(logits))
    for i in range(0, len(logits)):  # !
        target = labels[i, : lengths[i]]
        found[i] = torch.sum(target**2, dim=0)
    return found.mean()
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
        if loop is None or look.heats.makes_batches(site.function):
            return
        counted = _samples(loop, look)
        if counted is None:
            if _takes_segments(loop):
                yield Found(site.node, SAID)
            return
        parts = _parts(loop, counted)
        worked = [each for each in calls_in(loop) if _works_on(each.node, counted, parts)]
        if any(is_model_call(each.node, site.function, look) for each in worked):
            yield Found(site.node, SAID, least=Heat.ONCE)
        elif any(_is_kernel(each, look) for each in worked):
            yield Found(site.node, SAID)


SAID = "each sample of the batch is worked on by itself"


def _is_kernel(site: Site, look: Look) -> bool:
    if called_name(site.node) not in KERNELS:
        return False
    return look.is_of_torch(site.node) or look.value(receiver(site.node), site).is_tensor


def _samples(loop: Loop, look: Look) -> str | None:
    """The name that counts samples: ``i`` of ``for i in range(x.size(0))``."""
    target, over = loop.header()
    if not isinstance(target, ast.Name) or not isinstance(over, ast.Call):
        return None
    bounds = over.args if called_name(over) in ("range", "trange") else []
    if len(bounds) == 2 and is_constant(bounds[0], 0):
        bounds = bounds[1:]
    return target.id if len(bounds) == 1 and _is_batch(bounds[0], loop, look) else None


def _is_batch(node: ast.expr, loop: Loop, look: Look) -> bool:
    """``batch_size``, ``x.size(0)``, ``x.shape[0]`` and ``len(x)`` of a tensor."""
    match node:
        case ast.Call(func=ast.Attribute(attr="size"), args=[ast.Constant(value=0)]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant(value=0)):
            return True
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name() as counted]):
            kind = look.values.of(counted, loop.function).kind
            return kind == "tensor" or (kind == "unknown" and not look.heats.goes_over_few(loop))
        case ast.Name() | ast.Attribute():
            return bool(BATCH.search(last_name(node)))
    return False


def _parts(loop: Loop, counted: str) -> set[str]:
    """What the body makes of a sample: ``row`` of ``row = x[i]``."""
    return derived(loop, counted) - {counted}


def _takes_sample(node: ast.AST, counted: str) -> bool:
    return any(
        isinstance(part, ast.Subscript) and counted in names(part.slice) for part in walk(node)
    )


def _works_on(call: ast.Call, counted: str, parts: set[str]) -> bool:
    """Whether a call is given a sample, by its index or by what the body calls it."""
    given = [*operands(call), *(word.value for word in call.keywords)]
    return any(_takes_sample(each, counted) or not parts.isdisjoint(names(each)) for each in given)


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
