"""Lines of a task's own code that a scan points at, each with what was measured of it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from hasten.errors import HastenError
from hasten.records.finding import Place
from hasten.records.profile import ProfileParts
from hasten.records.scan import CodeCost, CodeFinding
from hasten.scan.scan import scan

WAITS, HOLDS = "HST2", "HST3"
"""Families of rules about waiting for the device, and about memory."""

Costs = dict[tuple[str, int], float]
"""By file and line."""
LinesRun = Callable[[Sequence[Path]], Mapping[Path, frozenset[int]]]
"""Lines of files that a task runs."""


def code_costs(
    parts: ProfileParts, *own: Place | None, lines_run: LinesRun
) -> tuple[CodeCost, ...]:
    """Of the files of the task's ``own`` places and of all lines that were measured, where the task
    runs them. A line costs what it costs once, however many findings it has."""
    measured = [each.place for each in parts.syncs]
    held = parts.memory.largest if parts.memory else ()
    places = [*own, *measured, *(each.place for each in held)]
    files = sorted({Path(each.path).resolve() for each in places if each is not None})
    files = [each for each in files if each.suffix == ".py" and each.is_file()]
    if not files:
        return ()
    waits = _sums((each.place, each.cost_s) for each in parts.syncs if each.cost_s is not None)
    holds = _sums((each.place, float(each.held_bytes)) for each in held if each.place is not None)
    hot = [Place(path=str(Path(each.path).resolve()), line=each.line) for each in measured]
    found = _run(scan(files, hot=hot).findings, lines_run)
    return tuple(sorted(_joined(found, waits, holds), key=_order))


def _run(found: Sequence[CodeFinding], lines_run: LinesRun) -> list[CodeFinding]:
    """Other code may stand in the same files, such as another task's; all of it where what runs
    cannot be watched."""
    try:
        lines = lines_run(sorted({Path(each.path).resolve() for each in found})) if found else {}
    except HastenError:
        return list(found)
    return [
        each
        for each in found
        if lines[Path(each.path).resolve()] & set(range(each.line, each.end_line + 1))
    ]


def _joined(found: Iterable[CodeFinding], waits: Costs, holds: Costs) -> Iterator[CodeCost]:
    for each in found:
        wait = _taken(waits, each) if each.code.startswith(WAITS) else None
        held = _taken(holds, each) if each.code.startswith(HOLDS) else None
        yield CodeCost(finding=each, cost_s=wait, held_bytes=None if held is None else round(held))


def _sums(costs: Iterable[tuple[Place, float]]) -> Costs:
    found: Costs = {}
    for place, cost in costs:
        key = str(Path(place.path).resolve()), place.line
        found[key] = found.get(key, 0.0) + cost
    return found


def _taken(costs: Costs, finding: CodeFinding) -> float | None:
    """What was measured on the finding's lines, which is then no other finding's."""
    path = str(Path(finding.path).resolve())
    lines = range(finding.line, finding.end_line + 1)
    taken = [costs.pop((path, line)) for line in lines if (path, line) in costs]
    return sum(taken) if taken else None


def _order(cost: CodeCost) -> tuple[float, float, str, int]:
    finding = cost.finding
    return -(cost.cost_s or 0.0), -(cost.held_bytes or 0), finding.path, finding.line
