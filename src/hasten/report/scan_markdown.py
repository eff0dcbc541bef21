"""What a scan found, as a plan of work in Markdown: what to do first, where, why and how, what is
right already and what to leave alone."""

import re
from collections.abc import Iterator, Mapping, Sequence

from hasten.records.scan import CodeFinding, RuleInWords, ScanReport, Severity, Spared
from hasten.report.markdown import escaped, in_code
from hasten.report.scan import SEVERITIES, Source, counted, headline, loop_words
from hasten.report.text import printable

PHASES: dict[Severity, str] = {
    "high": "what runs more than once in a step, or costs most",
    "medium": "what runs every step",
    "low": "what runs every epoch or once",
    "info": "to be looked at",
}
MOST_LINES = 6
"""Of code that are shown of one place."""
MOST_PLACES = 20
"""That are named of what is left alone."""
SPAN = re.compile(r"`([^`]+)`")
REASONS = {
    "seldom": "Nothing is seen that would make these run often, so there is nothing to gain:",
    "ignored": "Comments say that these are meant so:",
}


def scan_markdown(report: ScanReport, rules: Mapping[str, RuleInWords], source: Source) -> str:
    """``rules`` by their codes."""
    parts = ["# What costs time and memory", escaped(headline(report))]
    if report.findings:
        parts.append(_table(report, rules))
    for number, severity in enumerate(filter(report.summary.severities.get, SEVERITIES), 1):
        members = [each for each in report.findings if each.severity == severity]
        parts += [f"## Phase {number}: {PHASES[severity]}", *_phase(members, rules, source)]
    parts += [*_right(report, rules), *_left_alone(report, rules), *_unread(report)]
    return "\n\n".join(parts) + "\n"


def spans(text: str) -> str:
    """Text in which backticks stand around code."""
    pieces = SPAN.split(text)
    return "".join(in_code(each) if at % 2 else escaped(each) for at, each in enumerate(pieces))


def fenced(lines: Sequence[str], language: str = "python") -> str:
    """A block that no line of it ends."""
    text = "\n".join(printable(line.replace("\t", "    ")) for line in lines)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _table(report: ScanReport, rules: Mapping[str, RuleInWords]) -> str:
    rows = [["rule", "", "places", "effort for one", "risk"], ["---", "---", "---:", "---", "---"]]
    for code, count in sorted(report.summary.codes.items(), key=lambda each: -each[1]):
        rule = rules[code]
        rows.append([code, rule.name, f"{count:,}", rule.effort, spans(rule.risk)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _phase(
    findings: Sequence[CodeFinding], rules: Mapping[str, RuleInWords], source: Source
) -> Iterator[str]:
    """Rule by rule, the one with the most places first."""
    by_rule: dict[str, list[CodeFinding]] = {}
    for each in findings:
        by_rule.setdefault(each.code, []).append(each)
    for code, members in sorted(by_rule.items(), key=lambda each: (-len(each[1]), each[0])):
        rule = rules[code]
        yield f"### {code} {rule.name} ({counted(len(members), 'place')})"
        facts = {
            "Why": rule.why,
            "Fix": rule.instead,
            "Worth": rule.worth,
            "Effort": f"{rule.effort} for one place",
            "Risk": rule.risk,
            "Verify": rule.verify,
        }
        yield "\n".join(f"- **{name}**: {spans(text)}" for name, text in facts.items() if text)
        for each in members:
            yield from _place(each, source)


def _place(finding: CodeFinding, source: Source) -> Iterator[str]:
    where = f"{finding.path}:{finding.line}"
    yield f"{in_code(where)}: {spans(finding.message)}{_loop(finding, source)}"
    last = min(finding.end_line, finding.line + MOST_LINES - 1)
    if lines := source(finding.path, finding.line, last):
        yield fenced(_outdented(lines))
    if finding.fix is not None:
        yield f"{finding.fix.safety.capitalize()} fix: {spans(finding.fix.about)}"


def _loop(finding: CodeFinding, source: Source) -> str:
    loop = finding.loop
    if loop is None:
        return ""
    return f" ({in_code(str(loop.place))}, {escaped(loop_words(loop, source))})"


def _outdented(lines: Sequence[str]) -> list[str]:
    indent = len(lines[0]) - len(lines[0].lstrip())
    return [line[min(indent, len(line) - len(line.lstrip())) :] for line in lines]


def _right(report: ScanReport, rules: Mapping[str, RuleInWords]) -> Iterator[str]:
    absent = [rules[code] for code in report.summary.rules if code not in report.summary.codes]
    if absent and report.summary.files:
        yield "## Already right"
        yield "Looked for, and not found anywhere:"
        yield "\n".join(f"- {each.code} {each.name}" for each in absent)


def _left_alone(report: ScanReport, rules: Mapping[str, RuleInWords]) -> Iterator[str]:
    risky = [rules[code] for code in report.summary.codes if not _is_harmless(rules[code])]
    spared = report.summary.spared
    if not risky and not spared:
        return
    yield "## Not to be changed"
    if risky:
        yield "Not without a look at what else it changes:"
        yield "\n".join(f"- {each.code} {each.name}: {spans(each.risk)}" for each in risky)
    for reason, words in REASONS.items():
        if members := [each for each in spared if each.reason == reason]:
            yield words
            yield _places(members)


def _is_harmless(rule: RuleInWords) -> bool:
    return rule.risk.startswith("none")


def _places(spared: Sequence[Spared]) -> str:
    lines = [f"- {each.code} {in_code(f'{each.path}:{each.line}')}" for each in spared]
    more = len(lines) - MOST_PLACES
    return "\n".join([*lines[:MOST_PLACES], *([f"- and {more:,} more"] if more > 0 else [])])


def _unread(report: ScanReport) -> Iterator[str]:
    summary = report.summary
    if summary.unreadable or summary.remarks:
        yield "## Notes"
        notes = [
            f"- {in_code(path)} was not read: {escaped(why)}"
            for path, why in summary.unreadable.items()
        ]
        notes += [
            f"- {in_code(f'{each.path}:{each.line}')}: {spans(each.message)}"
            for each in summary.remarks
        ]
        yield "\n".join(notes)
