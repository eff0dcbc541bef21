"""Loops that hand a state from one turn to the next, and what in them does not need it."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from hasten.scan.look import Look, called_name, receiver
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.trace import last_name, names
from hasten.scan.vocabulary import LAUNCH_NOTHING


@dataclass(frozen=True, slots=True)
class Recurrence:
    """``for t in range(n)`` over moments of a tensor, with a state."""

    loop: ast.For
    moment: str
    """The name that counts."""
    cell: ast.Call
    """What makes the next state of the last."""
    state: frozenset[str]

    def parallel(self) -> Iterator[ast.Call]:
        """Calls of layers that need only the moment's inputs, so could run for all at once."""
        follows_state, made = set(self.state), {self.moment}
        for statement in self.loop.body:
            if not isinstance(statement, ast.Assign):
                continue
            read = set(names(statement.value))
            written = {name for each in statement.targets for name in names(each)}
            if read & follows_state:
                follows_state |= written
                continue
            follows_state -= written
            if read & made:
                made |= written
                for each in walk(statement.value):
                    if isinstance(each, ast.Call) and _is_layer(each, made):
                        yield each


def recurrence(site: Site) -> Recurrence | None:
    """Of a ``for`` in a method, where it is one."""
    loop: ast.For = site.node
    if not isinstance(loop.target, ast.Name) or not _counts(loop.iter):
        return None
    for statement in loop.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            continue
        call = statement.value
        if not _is_layer_of(call.func, site):
            continue
        written = {name for each in statement.targets for name in names(each)}
        state = written & {name for each in call.args for name in names(each)}
        if state and _takes_moments(loop, loop.target.id):
            return Recurrence(loop, loop.target.id, call, frozenset(state | _kept(loop)))
    return None


def hands_on(site: Site, look: Look) -> str:
    """Of a ``for`` over moments that computes with plain operations: what it hands on, by a name
    or from one index of a tensor to the next. Empty where it hands on no tensor."""
    loop: ast.For = site.node
    if not isinstance(loop.target, ast.Name):
        return ""
    if not _counts(loop.iter):
        return _between_slices(loop, site, look)
    if not any(loop.target.id in names(each) for each in loop.body):
        return _iterated(loop, site, look)
    moment = loop.target.id
    by_name = last_name(loop.iter.func) == "reversed" or bool(MOMENT.match(moment))  # type: ignore[attr-defined]
    if not by_name and not any(_is_indexed(each) for each in loop.body):
        return ""
    read, written = _indexed(loop, moment)
    if any(_is_of_self(each.value) for each in read):
        return ""
    tensors = {last_name(each.value) for each in read if look.value(each.value, site).is_tensor}
    for each in written:
        name = last_name(each.value)
        own = [other for other in read if last_name(other.value) == name]
        shifted = any(_shifts(other.slice, moment) for other in (each, *own))
        if name in tensors and own and shifted:
            return name
    if not tensors or not by_name:
        return ""
    return next(iter(sorted(_followed(loop, tensors | {moment}) & handed_on(loop))), "")


def _between_slices(loop: ast.For, site: Site, look: Look) -> str:
    """Of a loop over the moments of a tensor itself: the state that a layer makes of the last."""
    if isinstance(loop.iter, ast.Call):
        if called_name(loop.iter) != "unbind":
            return ""
    elif not look.value(loop.iter, site).is_tensor:
        return ""
    moment = set(names(loop.target))
    kept = handed_on(loop)
    for statement in loop.body:
        match statement:
            case ast.Assign(
                targets=[ast.Name() | ast.Tuple() as target], value=ast.Call() as value
            ):
                if called_name(value) in ("cat", "concat", "stack"):
                    continue
                read, written = set(names(value)), set(names(target))
                if moment & read and kept & read & written:
                    return min(kept & read & written)
    return ""


def _iterated(loop: ast.For, site: Site, look: Look) -> str:
    """Of a loop that repeats a computation, as Sinkhorn's and power iterations do: the tensor that
    comes out of one turn and goes into the next. Not where a layer is called or a shape changed."""
    if len(loop.body) > ITERATED or not all(_is_plain(each) for each in loop.body):
        return ""
    kept = handed_on(loop)
    calls = [
        each
        for statement in loop.body
        for each in walk(statement)
        if isinstance(each, ast.Call) and called_name(each) not in LAUNCH_NOTHING
    ]
    if not calls or not all(_is_kernel(each, site, look) for each in calls):
        return ""
    line = loop.end_lineno or loop.lineno
    tensors = (
        each for each in sorted(kept) if look.values.of_name(each, line, site.function).is_tensor
    )
    return next(tensors, "")


ITERATED = 8
"""Statements of a body that is an iteration and no more."""


def _is_plain(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign | ast.AugAssign)


def _is_kernel(call: ast.Call, site: Site, look: Look) -> bool:
    if not look.value(call, site).is_tensor:
        return False
    return look.is_of_torch(call) or look.value(receiver(call), site).is_tensor


MOMENT = re.compile(r"^(t|ti|tt|time|step|timestep|time_step|moment)$")


def _is_indexed(statement: ast.stmt) -> bool:
    """``x[i] = ...``."""
    return isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript)


def _shifts(index: ast.expr, moment: str) -> bool:
    """Whether it reaches the moment before or after: ``t + 1``."""
    return any(
        isinstance(each, ast.BinOp)
        and last_name(each.left) == moment
        and isinstance(each.right, ast.Constant)
        for each in walk(index)
    )


def _indexed(loop: ast.For, moment: str) -> tuple[list[ast.Subscript], list[ast.Subscript]]:
    """What is read and what is written at an index that the loop counts."""
    read: list[ast.Subscript] = []
    written: list[ast.Subscript] = []
    for statement in loop.body:
        for node in walk(statement):
            if isinstance(node, ast.Subscript) and moment in names(node.slice):
                (written if isinstance(node.ctx, ast.Store) else read).append(node)
    return read, written


def _followed(loop: ast.For, sources: set[str]) -> set[str]:
    """Names that are computed from these in the body."""
    found = set(sources)
    for statement in loop.body:
        if isinstance(statement, ast.Assign) and found & set(names(statement.value)):
            found |= {each.id for each in statement.targets if isinstance(each, ast.Name)}
    return found - sources


def _counts(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in ("range", "reversed", "trange")


def _takes_moments(loop: ast.For, moment: str) -> bool:
    """Whether ``x[:, t]`` is read, as opposed to ``self.layers[t](...)``."""
    reads = False
    for statement in loop.body:
        for node in walk(statement):
            if isinstance(node, ast.Subscript):
                indexes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                if any(last_name(each) == moment for each in indexes):
                    if _is_of_self(node.value):
                        return False
                    reads = True
    return reads


def _is_of_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and last_name(node.value) == "self"


def _is_layer_of(called: ast.expr, site: Site) -> bool:
    owner = site.function.owner
    return _is_of_self(called) and owner is not None and last_name(called) not in owner.methods


def _kept(loop: ast.For) -> set[str]:
    """Names that are read before the body gives them a value."""
    return handed_on(loop) | {
        name
        for statement in loop.body
        if isinstance(statement, ast.AugAssign)
        for name in names(statement.target)
    }


def handed_on(loop: ast.For) -> set[str]:
    """Names that are read before the body assigns them; what is only added to is none."""
    written: set[str] = set()
    early: set[str] = set()
    for statement in loop.body:
        if isinstance(statement, ast.Assign):
            early |= set(names(statement.value)) - written
            written |= {name for each in statement.targets for name in names(each)}
    return early & written


def _is_layer(call: ast.Call, made: set[str]) -> bool:
    return _is_of_self(call.func) and any(made & set(names(each)) for each in call.args)
