"""Which rules look at which places of a file."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, compress
from typing import NamedTuple

from hasten.scan.outline import Outline, Site
from hasten.scan.rule import Rule
from hasten.scan.subjects import SUBJECTS


class Narrowing(NamedTuple):
    """Which places of a kind are left: those in a loop, those with certain nodes in a field."""

    in_loops: bool
    part: str
    kinds: frozenset[type[ast.AST]]


NOT_NARROWED = Narrowing(False, "", frozenset())


class Asked(NamedTuple):
    """A rule that looks at places of a kind, or at some of them."""

    rule: Rule
    narrowing: Narrowing


@dataclass(frozen=True)
class Rules:
    """Which rules look at what."""

    by_call: dict[str, list[Asked]] = field(default_factory=dict)
    by_node: dict[type[ast.AST], list[Asked]] = field(default_factory=dict)
    by_write: dict[str, list[Asked]] = field(default_factory=dict)

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> "Rules":
        found = cls()
        for rule in rules:
            plain = Asked(rule, Narrowing(rule.in_loops, "", frozenset()))
            for name in rule.calls:
                found.by_call.setdefault(name, []).append(plain)
            for node in rule.nodes:
                found.by_node.setdefault(node, []).append(Asked(rule, _narrowing(rule, node)))
            for name in rule.writes:
                found.by_write.setdefault(name, []).append(plain)
        return found

    def asked(self, found: Outline) -> Iterator[tuple["Places", list[Asked]]]:
        """What the file has, with the rules that look at it."""
        for sites, asked in chain(
            ((sites, self.by_call[name]) for name, sites in found.calls.items()),
            ((sites, self.by_node[node]) for node, sites in found.nodes.items()),
            ((sites, self.by_write[name]) for name, sites in found.writes.items()),
        ):
            yield Places(sites), asked

    def met(self, found: Outline) -> Iterator[Rule]:
        """Whose subject is seen: they looked at a place of which a word alone tells that it is
        theirs."""
        for places, by_name in ((found.calls, self.by_call), (found.writes, self.by_write)):
            for name, sites in places.items():
                for rule, narrowing in by_name[name]:
                    if name in SUBJECTS.get(rule.code, ()) and Places(sites).left(narrowing):
                        yield rule


def _narrowing(rule: Rule, node: type[ast.AST]) -> Narrowing:
    part, kinds = {
        ast.Assign: ("value", rule.assigned),
        ast.Expr: ("value", rule.assigned),
        ast.Subscript: ("slice", rule.indexed),
        ast.Compare: ("ops", rule.compared),
    }.get(node, ("", ()))
    return Narrowing(rule.in_loops, part if kinds else "", frozenset(kinds))


class Places:
    """Of one kind in a file. Rules that narrow them in the same way share what is left."""

    def __init__(self, sites: list[Site]) -> None:
        self._left = {NOT_NARROWED: sites}
        self._kinds: list[type[ast.AST]] | None = None

    def left(self, narrowing: Narrowing) -> list[Site]:
        found = self._left.get(narrowing)
        if found is None:
            found = self._left[narrowing] = self._narrowed(narrowing)
        return found

    def _narrowed(self, narrowing: Narrowing) -> list[Site]:
        in_loops, part, kinds = narrowing
        if in_loops:
            left = self.left(narrowing._replace(in_loops=False))
            return [site for site in left if site.loop is not None]
        sites = self._left[NOT_NARROWED]
        if self._kinds is None:
            self._kinds = _kinds_of(part, sites)
        return list(compress(sites, map(kinds.__contains__, self._kinds)))


def _kinds_of(part: str, sites: list[Site]) -> list[type[ast.AST]]:
    if part == "value":
        return [site.node.value.__class__ for site in sites]
    if part == "slice":
        return [site.node.slice.__class__ for site in sites]
    return [site.node.ops[0].__class__ for site in sites]
