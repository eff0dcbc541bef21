"""A loop over the samples of a batch that is already a tensor."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, names_in
from hasten.scan.models import is_model_call
from hasten.scan.nodes import walk
from hasten.scan.outline import STEPS, Function, Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import calls_in, derived, last_name, loop_of, names, operands
from hasten.scan.turns import (
    counts_samples,
    goes_over_all,
    goes_over_rows,
    hands_on_tensor,
    is_kernel,
    over_moments,
)
from hasten.scan.vocabulary import LAUNCH_NOTHING


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
    nodes = (ast.For, ast.ListComp, ast.GeneratorExp)
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

def fill(scores, known, n_nodes, table):
    b_size = scores.shape[0]
    for i in range(b_size):  # !
        scores[i][known[i]] = float("-inf")
    rows = scores.unsqueeze(0)
    found = [torch.softmax(row, dim=0) for row in rows]  # !
    for node in range(n_nodes):  # !
        found.append(torch.matmul(table, scores[node]))
    return found
""",
        """\
import torch

def distort(x: torch.Tensor, kinds, starts, batch_size):
    x = x.clone()
    for i in range(batch_size):  # !
        kind = kinds[i]
        print(kind)
        if kind == 0:
            x[i, starts[i] :] = 0  # !
        else:
            x[i, : starts[i]] = torch.mean(x[i, -10:], dim=0)  # !
    return x
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
        heads = self.heads(x)
        both = sum(torch.nn.functional.mse_loss(each, x) for each in heads)
        for i in range(self.num_upsamples):
            x = self.ups[i](x)
        return x.sum(0), counts, both
""",
        """\
import torch

class Readout(torch.nn.Module):
    def forward(self, x, y, sizes):
        batch, _, _ = x.shape
        found, start, total = [], 0, 0
        for each in x.unbind(dim=0):  # !
            found.append(torch.roll(each, 3, 1))
        for i in range(batch):  # !
            x[i] = self.turn @ x[i] + self.shift
        for one, other in zip(x, y):  # !
            total = total + (one - other).abs().mean()
        for size in sizes:  # !
            found.append(x[start : start + size].mean(0))
            start += size
        return found, total, torch.stack([self.pooled(each) for each in y.unbind()])  # !

    def pooled(self, part):
        return torch.amax(part, dim=0)

class Spans(torch.nn.Module):
    def forward(self, x, scope, ends):
        x = torch.relu(self.layer(x))
        found = []
        for start, size in scope:  # !
            part = x[start : start + size].mean(dim=0)
            found.append(part)
        means = [x[start:end].mean() for start, end in zip(ends[:-1], ends[1:])]  # !
        return found, means, [x[start:end] for start, end in scope]

class Solver(torch.nn.Module):
    def compute_loss(self, batch):
        x, y = batch
        return [torch.dist(one, other) for one, other in zip(self.net(x), y)]  # !
""",
        """\
import torch

class Net(torch.nn.Module):
    def forward(self, x, targets, loss_list, weights):
        for t in x.unbind(dim=1):
            self.state = self.cell(t, self.state)
        total = sum(weight * loss for loss, weight in zip(loss_list, weights))
        parts = self.net(x)
        for i in range(len(parts)):
            total = total + parts[i].mean()
        for target in targets:
            total = total + torch.dist(x[0], target["boxes"])
        for start in range(0, len(x), 64):
            total = total + x[start : start + 64].sum()
        if isinstance(x, (list, tuple)):
            total = total + sum(each.abs().mean() for each in x)
        start = 0
        for weight in self.params:
            weight.add_(x[start : start + weight.numel()].view_as(weight))
            start += weight.numel()
        state = x[0]
        for row in x:
            state = torch.tanh(state + row)
        return total, state
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        over = _over(site.node)
        counts = counts_samples(over, site.function, look)
        is_tensor = counts or goes_over_rows(over, site, look)
        if not is_tensor and not _may_take_segments(site.node):
            return
        loop = loop_of(site)
        if loop is None or look.heats.makes_batches(site.function):
            return
        if not is_tensor:
            if _takes_segments(loop, look):
                yield Found(site.node, SAID)
            return
        if over_moments(loop) or hands_on_tensor(loop, look) or _trains(loop):
            return
        target, _ = loop.header()
        samples = set(names(target)) if target is not None else set()
        if not counts and _are_records(loop, samples):
            return
        work = _Work(loop, samples, counts, look)
        least = work.least()
        if least is None:
            return
        yield Found(site.node, SAID, least=least)
        for statement in work.statements() if isinstance(site.node, ast.For) else ():
            if statement.lineno > site.node.lineno + IN_SIGHT:
                yield Found(statement, SAID, least=least)


IN_SIGHT = 2
"""Lines below the head of a loop on which it need not be said again."""
SAID = "each sample of the batch is worked on by itself"


def _over(node: ast.For | ast.ListComp | ast.GeneratorExp) -> ast.expr:
    return node.iter if isinstance(node, ast.For) else node.generators[0].iter


def _may_take_segments(node: ast.For | ast.ListComp | ast.GeneratorExp) -> bool:
    return isinstance(node, ast.For) or isinstance(node.generators[0].target, ast.Tuple)


def _trains(loop: Loop) -> bool:
    return any(each.called in STEPS for each in calls_in(loop))


def _are_records(loop: Loop, samples: set[str]) -> bool:
    """``target["boxes"]``: such come in a list."""
    return any(
        isinstance(each, ast.Subscript)
        and last_name(each.value) in samples
        and isinstance(each.slice, ast.Constant)
        and isinstance(each.slice.value, str)
        for each in walk(loop.node)
    )


class _Work:
    """What a loop launches for each of its samples."""

    def __init__(self, loop: Loop, samples: set[str], counts: bool, look: Look) -> None:
        self._loop, self._samples, self._counts, self._look = loop, samples, counts, look
        made = set().union(*(derived(loop, each) for each in samples))
        parts = made - samples if counts else made
        given = [each for each in calls_in(loop) if _works_on(each.node, samples, parts)]
        self._models = [each for each in given if is_model_call(each.node, loop.function, look)]
        self._kernels = [each for each in given if _is_work(each.node, loop.function, look)]
        self._sums = any(_works_on(each, samples, parts) for each in _operations(loop, look))
        self._writes = list(_writes(loop, samples, look))

    def least(self) -> Heat | None:
        """How often it must run to matter; None where the loop launches nothing for a sample."""
        if self._models:
            return Heat.ONCE
        if self._kernels or self._writes or self._sums:
            return Heat.ONCE if self._counts and goes_over_all(self._loop) else Heat.STEP
        return None

    def statements(self) -> list[ast.stmt]:
        """Those that take a sample by its index, or write to it."""
        called = [
            each.statement
            for each in (*self._models, *self._kernels)
            if _takes_sample(each.node, self._samples)
        ]
        return [*called, *self._writes]


def _is_work(call: ast.Call, function: Function, look: Look) -> bool:
    """A kernel, or a function that gives a tensor, of this file or of another."""
    if called_name(call) in LAUNCH_NOTHING:
        return False
    return is_kernel(call, function, look) or look.values.of(call, function).is_tensor


def _takes_sample(node: ast.AST, samples: set[str]) -> bool:
    return any(
        isinstance(part, ast.Subscript) and not samples.isdisjoint(names(part.slice))
        for part in walk(node)
    )


def _works_on(node: ast.Call | ast.BinOp, samples: set[str], parts: set[str]) -> bool:
    """Whether it is given a sample, by its index or by what the body calls it."""
    given = operands(node)
    if isinstance(node, ast.Call):
        given += [word.value for word in node.keywords]
    return any(_takes_sample(each, samples) or not parts.isdisjoint(names(each)) for each in given)


def _operations(loop: Loop, look: Look) -> Iterator[ast.BinOp]:
    """``a - b`` and its like, of tensors."""
    body = loop.node.body if isinstance(loop.node, ast.For) else [loop.node]
    for each in (node for part in body for node in walk(part)):
        if isinstance(each, ast.BinOp) and look.values.of(each, loop.function).is_tensor:
            yield each


def _writes(loop: Loop, samples: set[str], look: Look) -> Iterator[ast.stmt]:
    """``mask[i, : lengths[i]] = 1`` and ``scores[i][known] = 0`` of a tensor."""
    for statement in _plain(loop.node.body if isinstance(loop.node, ast.For) else []):
        match statement:
            case ast.Assign(targets=[ast.Subscript() as target]) if _is_part(target, samples):
                base = (
                    target.value.value if isinstance(target.value, ast.Subscript) else target.value
                )
                if look.values.of(base, loop.function).is_tensor:
                    yield statement


def _plain(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements, also those under conditions."""
    for each in body:
        if isinstance(each, ast.If):
            yield from _plain(each.body)
            yield from _plain(each.orelse)
        else:
            yield each


def _is_part(target: ast.Subscript, samples: set[str]) -> bool:
    """Whether it is a part of a sample that depends on the sample."""
    if isinstance(target.value, ast.Subscript):
        return not samples.isdisjoint(names(target.value.slice))
    index = target.slice
    if not isinstance(index, ast.Tuple) or samples.isdisjoint(names(index.elts[0])):
        return False
    return any(isinstance(each, ast.Slice | ast.Subscript) for each in index.elts[1:])


def _takes_segments(loop: Loop, look: Look) -> bool:
    """``x.narrow(0, start, size)`` with what the loop goes over, or ``x[start:end]`` from where the
    last turn ended, if something is computed of it."""
    target, over = loop.header()
    if target is None or called_name(over) in ("range", "trange"):
        return False
    if any("param" in name or "chunk" in name for name in names_in(over)):
        return False
    if (
        isinstance(target, ast.Tuple)
        and "narrow" in loop.function.called
        and any(
            each.called == "narrow" and set(names(target)) & set(names(each.node))
            for each in calls_in(loop)
        )
    ):
        return True
    return any(
        _is_of_segment(each.node, loop, look)
        for each in calls_in(loop)
        if each.called not in LAUNCH_NOTHING
    )


def _is_of_segment(call: ast.Call, loop: Loop, look: Look) -> bool:
    """``x[start : start + n].mean(0)``, where a later line of the loop moves the start, or where
    the loop goes over starts and sizes or ends."""
    if not isinstance(call.func, ast.Attribute):
        return False
    for each in operands(call):
        match each:
            case ast.Subscript(slice=ast.Slice(lower=ast.Name(id=start), upper=ast.expr() as end)):
                if not (_moves(start, loop) or _goes_over_both(start, end, loop)):
                    continue
                if look.values.of(each.value, loop.function).is_tensor:
                    return True
    return False


def _moves(start: str, loop: Loop) -> bool:
    return any(
        loop.holds(each.line) and each.how != "loop"
        for each in loop.function.bindings.get(start, ())
    )


def _goes_over_both(start: str, end: ast.expr, loop: Loop) -> bool:
    target, _ = loop.header()
    if not isinstance(target, ast.Tuple):
        return False
    given = set(names(target))
    return start in given and not (given - {start}).isdisjoint(names(end))
