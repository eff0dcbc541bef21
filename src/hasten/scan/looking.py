"""Which rules look at which places of a file."""

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain, compress
from typing import NamedTuple

from hasten.scan.look import Look
from hasten.scan.outline import Outline, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.subjects import SUBJECTS
from hasten.scan.traversal import Wanted


@dataclass(frozen=True, eq=False, slots=True)
class Narrowing:
    """Which places of a kind are left: those with certain nodes in a field, those in a loop."""

    part: str
    kinds: frozenset[type[ast.AST]]
    in_loops: bool


narrowing_to = cache(Narrowing)
"""Only one of each, so that they are compared as objects."""


class Asked(NamedTuple):
    """A rule that looks at places of a kind, or at some of them, with what is asked of it for each
    kind of each file."""

    rule: Rule
    narrowing: Narrowing | None
    needs_torch: bool
    mentions: tuple[str, ...]
    check: Callable[[Site, Look], Iterator[Found]]

    @classmethod
    def of(cls, rule: Rule, narrowing: Narrowing | None) -> "Asked":
        return cls(rule, narrowing, rule.needs_torch, rule.mentions, rule.check)


@dataclass(frozen=True)
class Rules:
    """Which rules look at what."""

    by_call: dict[str, list[Asked]] = field(default_factory=dict)
    by_node: dict[type[ast.AST], list[Asked]] = field(default_factory=dict)
    by_write: dict[str, list[Asked]] = field(default_factory=dict)

    @cached_property
    def wanted(self) -> Wanted:
        return Wanted(self.by_call, self.by_node, self.by_write)

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> "Rules":
        found = cls()
        for rule in rules:
            plain = Asked.of(rule, _narrowing(rule))
            for name in rule.calls:
                found.by_call.setdefault(name, []).append(plain)
            for node in rule.nodes:
                found.by_node.setdefault(node, []).append(Asked.of(rule, _narrowing(rule, node)))
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

    @cached_property
    def _subjects(self) -> tuple[dict[str, list[Asked]], dict[str, list[Asked]]]:
        """Of calls and of writes: those by a word that alone tells that a rule is about them."""
        return _telling(self.by_call), _telling(self.by_write)

    def met(self, found: Outline) -> Iterator[Rule]:
        """Whose subject is seen."""
        for places, by_name in zip((found.calls, found.writes), self._subjects, strict=True):
            for name in by_name.keys() & places.keys():
                for each in by_name[name]:
                    if Places(places[name]).left(each.narrowing):
                        yield each.rule


def _telling(by_name: dict[str, list[Asked]]) -> dict[str, list[Asked]]:
    telling = {
        name: [each for each in asked if name in SUBJECTS.get(each.rule.code, ())]
        for name, asked in by_name.items()
    }
    return {name: asked for name, asked in telling.items() if asked}


def _narrowing(rule: Rule, node: type[ast.AST] = ast.Call) -> Narrowing | None:
    part, kinds = {
        ast.Assign: ("value", rule.assigned),
        ast.Expr: ("value", rule.assigned),
        ast.Subscript: ("slice", rule.indexed),
        ast.Compare: ("ops", rule.compared),
    }.get(node, ("", ()))
    if not kinds and not rule.in_loops:
        return None
    return narrowing_to(part if kinds else "", frozenset(kinds), rule.in_loops)


class Places:
    """Of one kind in a file. Rules that narrow them in the same way share what is left."""

    def __init__(self, sites: list[Site]) -> None:
        self.all = sites
        self._left: dict[Narrowing, list[Site]] = {}
        self._kinds: list[type[ast.AST]] | None = None

    def left(self, narrowing: Narrowing | None) -> list[Site]:
        if narrowing is None:
            return self.all
        found = self._left.get(narrowing)
        if found is None:
            found = self._left[narrowing] = self._narrowed(narrowing)
        return found

    def _narrowed(self, narrowing: Narrowing) -> list[Site]:
        if not narrowing.kinds:
            return [site for site in self.all if site.loop is not None]
        if narrowing.in_loops:
            left = self.left(narrowing_to(narrowing.part, narrowing.kinds, False))
            return [site for site in left if site.loop is not None]
        if self._kinds is None:
            self._kinds = _kinds_of(narrowing.part, self.all)
        return list(compress(self.all, map(narrowing.kinds.__contains__, self._kinds)))


def _kinds_of(part: str, sites: list[Site]) -> list[type[ast.AST]]:
    if part == "value":
        return [site.node.value.__class__ for site in sites]
    if part == "slice":
        return [site.node.slice.__class__ for site in sites]
    return [site.node.ops[0].__class__ for site in sites]
