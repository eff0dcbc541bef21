"""Puts fixes into texts: which, all of a group or none, again until nothing is left to fix.

Nothing is read or written here, so that a text is either fixed to its end or left as it was.
"""

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hasten.records.scan import CodeFinding, Safety
from hasten.scan.idle_imports import without_idle_imports
from hasten.scan.lines import Lines
from hasten.scan.patch import Span, clash, patched, spans

ROUNDS = 10
"""A fix may uncover another, and two that change the same text are made one after the other; one
that is never done would change a text without end."""

Look = Callable[[Mapping[str, str]], Sequence[CodeFinding]]
"""All findings of the tree, once the files that are given read as they are given."""


@dataclass
class Fixed:
    """The texts that came of it; those that are left as they were are not in ``texts``."""

    texts: dict[str, str] = field(default_factory=dict)
    findings: list[CodeFinding] = field(default_factory=list)
    """That were fixed."""
    refused: dict[str, str] = field(default_factory=dict)
    left: Sequence[CodeFinding] = ()


def fix_texts(
    texts: Mapping[str, str], findings: Sequence[CodeFinding], look: Look, *, unsafe: bool = False
) -> Fixed:
    """``findings`` are of files of which those in ``texts`` are to be fixed."""
    fixed = Fixed(left=findings)
    for _ in range(ROUNDS):
        changed = _round(texts, fixed, allowed(unsafe=unsafe))
        if not changed:
            return fixed
        fixed.left = look(changed)
    restless = _round(texts, fixed, allowed(unsafe=unsafe))
    for path in restless:
        _give_up(path, fixed, f"its fixes come to no end in {ROUNDS} rounds")
    fixed.left = look({path: texts[path] for path in restless})
    return fixed


def allowed(*, unsafe: bool) -> frozenset[Safety]:
    return frozenset(("safe", "unsafe") if unsafe else ("safe",))


def ready(
    findings: Iterable[CodeFinding], safeties: frozenset[Safety]
) -> tuple[list[list[CodeFinding]], int]:
    """What can be fixed, each group together, and how many fixes wait for others of their group.
    All are of one file."""
    groups: dict[object, list[CodeFinding]] = {}
    for number, each in enumerate(findings):
        groups.setdefault(each.group or number, []).append(each)
    whole, held_back = [], 0
    for group in groups.values():
        can = [
            each for each in group if each.fix and each.fix.edits and each.fix.safety in safeties
        ]
        if len(can) == len(group):
            whole.append(group)
        else:
            held_back += len(can)
    return whole, held_back


def _round(texts: Mapping[str, str], fixed: Fixed, safeties: frozenset[Safety]) -> dict[str, str]:
    """The texts that changed."""
    changed: dict[str, str] = {}
    for path, found in by_path(fixed.left).items():
        if path in fixed.refused or path not in texts:
            continue
        before = fixed.texts.get(path, texts[path])
        groups = ready(found, safeties)[0]
        after, made = fixed_once(before, groups)
        if after != before:
            changed[path] = fixed.texts[path] = after
            fixed.findings += made
        elif groups and path not in fixed.texts:
            fixed.refused[path] = "its fixes would leave no Python"
    return changed


def by_path(findings: Iterable[CodeFinding]) -> dict[str, list[CodeFinding]]:
    found: dict[str, list[CodeFinding]] = {}
    for each in findings:
        found.setdefault(each.path, []).append(each)
    return found


def _give_up(path: str, fixed: Fixed, why: str) -> None:
    fixed.refused[path] = why
    fixed.texts.pop(path, None)
    fixed.findings = [each for each in fixed.findings if each.path != path]


def fixed_once(text: str, groups: Sequence[list[CodeFinding]]) -> tuple[str, list[CodeFinding]]:
    """With as many groups as go together; the text itself where not one can be fixed."""
    lines = Lines(text)
    taken: list[Span] = []
    made: list[CodeFinding] = []
    for group in groups:
        wanted = spans(lines, (edit for each in group if each.fix for edit in each.fix.edits))
        if not clash(wanted, wanted) and not clash(wanted, taken):
            taken += wanted
            made += group
    after = patched(text, taken)
    if not made:
        return text, []
    if _parses(after):
        return without_idle_imports(made[0].path, text, after), made
    for group in groups if len(groups) > 1 else ():
        after, made = fixed_once(text, [group])  # two that are right may together be wrong
        if made:
            return after, made
    return text, []


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
