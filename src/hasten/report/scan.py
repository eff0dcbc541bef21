"""What a scan found, in words that all of its formats share; and the page for a terminal."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from hasten.records.scan import CodeFinding, HotLoop, ScanReport, ScanSummary, Severity
from hasten.report.lines import unbroken
from hasten.report.text import printable

Source = Callable[[str, int, int], Sequence[str]]
"""Lines of a file, from one to another; none where it cannot be read any more."""

SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low", "info")
STYLES = {"high": "bold red", "medium": "yellow", "low": "cyan", "info": "dim"}
RUNS = {
    "epoch": "every epoch",
    "step": "every step",
    "element": "more than once in a step",
}
OWN_LOOP = "this loop"
MOST_NOTES = 10
"""Of files that were not read, and the like."""


@dataclass(frozen=True)
class LoopFindings:
    loop: HotLoop | None
    findings: tuple[CodeFinding, ...]


def by_loop(findings: Iterable[CodeFinding]) -> list[LoopFindings]:
    """The most expensive first: those with the most that is severe."""
    groups: dict[tuple[str, int], list[CodeFinding]] = {}
    for each in findings:
        at = each.loop.place if each.loop else None
        groups.setdefault((at.path, at.line) if at else ("", 0), []).append(each)

    def cost(item: tuple[tuple[str, int], list[CodeFinding]]) -> tuple[object, ...]:
        place, members = item
        counts = [-sum(each.severity == name for each in members) for name in SEVERITIES]
        return (not members[0].loop, *counts, place)

    return [
        LoopFindings(members[0].loop, tuple(sorted(members, key=_severest)))
        for _, members in sorted(groups.items(), key=cost)
    ]


def counted(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def headline(report: ScanReport) -> str:
    summary = report.summary
    if not summary.files and summary.skipped:
        return (
            f"Nothing looked at: {counted(summary.skipped, 'file')} skipped, with no word of torch,"
            " numpy, pandas or training."
        )
    if not report.findings:
        return f"Nothing found in {counted(summary.files, 'file')}."
    files = len({each.path for each in report.findings})
    severities = [
        f"{summary.severities[name]} {name}" for name in SEVERITIES if name in summary.severities
    ]
    return (
        f"{counted(len(report.findings), 'finding')} in {files:,} of"
        f" {counted(summary.files, 'file')}: {', '.join(severities)}."
    )


def loop_words(loop: HotLoop, source: Source) -> str:
    """How often, and by what."""
    runs = RUNS[loop.runs]
    if loop.words != OWN_LOOP:
        return f"{runs}: {loop.words}"
    line = "".join(source(loop.place.path, loop.place.line, loop.place.line)).strip()
    return f"{runs}: {line}" if line else runs


def scan_card(report: ScanReport, source: Source) -> RenderableType:
    parts: list[RenderableType] = []
    for group in by_loop(report.findings):
        parts += [_head(group, source), _findings(group.findings, source), Text()]
    parts.append(Text(headline(report), style="bold"))
    parts += _notes(report.summary)
    if report.findings:
        code = min(report.findings, key=_severest).code
        parts.append(unbroken(f"hasten explain {code} says why, and what to write instead."))
    return Group(*parts)


def _severest(finding: CodeFinding) -> tuple[int, str, int, int]:
    severity = SEVERITIES.index(finding.severity)
    return severity, finding.path, finding.line, finding.column


def _head(group: LoopFindings, source: Source) -> Text:
    if group.loop is None:
        return unbroken("In no loop")
    head = unbroken("")
    head.append(printable(str(group.loop.place)), style="bold")
    return head.append(f"  {printable(loop_words(group.loop, source))}")


def _findings(findings: Iterable[CodeFinding], source: Source) -> RenderableType:
    rows: list[RenderableType] = []
    for each in findings:
        row = unbroken(printable(f"  {each.path}:{each.line}:{each.column}  "))
        row.append(f"{each.code} {each.severity}", style=STYLES[each.severity])
        rows.append(row.append(f"  {printable(each.message)}"))
        if line := "".join(source(each.path, each.line, each.line)).strip():
            rows.append(
                Text(f"    {printable(line)}", style="dim", no_wrap=True, overflow="ellipsis")
            )
    return Group(*rows)


def _notes(summary: ScanSummary) -> list[RenderableType]:
    notes = [f"{each.path}:{each.line}: {each.message}" for each in summary.remarks]
    notes += [f"not read: {path}: {why}" for path, why in summary.unreadable.items()]
    shown = notes[:MOST_NOTES]
    if len(notes) > len(shown):
        shown.append(f"and {len(notes) - len(shown):,} more such notes; --json has them all")
    return [unbroken(f"note: {printable(each)}") for each in shown]
