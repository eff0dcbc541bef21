"""Loops that hand a state from one turn to the next, and what in them does not need it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from hasten.scan.outline import Site
from hasten.scan.trace import last_name, names


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
                for each in ast.walk(statement.value):
                    if isinstance(each, ast.Call) and _is_layer(each, made):
                        yield each


def recurrence(site: Site) -> Recurrence | None:
    """Of a ``for`` in a method, where it is one."""
    loop: ast.For = site.node
    if not isinstance(loop.target, ast.Name) or not _counts(loop.iter):
        return None
    if site.function.owner is None or not _takes_moments(loop, loop.target.id):
        return None
    for statement in loop.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            call = statement.value
            written = {name for each in statement.targets for name in names(each)}
            state = written & {name for each in call.args for name in names(each)}
            if state and _is_layer_of(call.func, site):
                return Recurrence(loop, loop.target.id, call, frozenset(state | _kept(loop)))
    return None


def _counts(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in ("range", "reversed", "trange")


def _takes_moments(loop: ast.For, moment: str) -> bool:
    """Whether ``x[:, t]`` is read, as opposed to ``self.layers[t](...)``."""
    reads = False
    for statement in loop.body:
        for node in ast.walk(statement):
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
