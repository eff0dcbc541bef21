"""What a scan found, as a plan of work in Markdown: what to do first, where, why and how, what was
looked at besides and what to leave alone."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hasten.records.scan import CodeFinding, Fix, RuleInWords, ScanReport, Severity, Spared
from hasten.report.markdown import escaped, in_code
from hasten.report.scan import OWN_LOOP, RUNS, SEVERITIES, Source, counted, headline
from hasten.report.text import printable

PHASES: dict[Severity, str] = {
    "high": "what runs more than once in a step, or costs most",
    "medium": "what runs every step",
    "low": "what runs every epoch or once",
    "info": "to be looked at",
}
MOST_LINES = 6
"""Of code that are shown of one place."""
MOST_PLACES = 4
"""That are named of what a rule leaves alone."""
SPAN = re.compile(r"`([^`]+)`")
REASONS = {
    "seldom": "Nothing is seen that would make these run often, so there is nothing to gain:",
    "ignored": "Comments say that these are meant so:",
}
FIXES = {
    "safe": "`hasten scan --fix` does it",
    "unsafe": "`hasten scan --fix --unsafe` does it",
    "display": "By hand",
}
HOW_TO_READ = (
    "Read from the source alone: each is a place to look at, and what runs most often stands first."
    " `hasten explain` and a code say more of a rule."
)
Rules = Mapping[str, RuleInWords]


def scan_markdown(report: ScanReport, rules: Rules, source: Source) -> str:
    """``rules`` by their codes."""
    parts = ["# What costs time and memory", escaped(headline(report))]
    if report.findings:
        parts += [spans(HOW_TO_READ), _table(report, rules)]
    told: dict[str, int] = {}
    for number, severity in enumerate(filter(report.summary.severities.get, SEVERITIES), 1):
        members = [each for each in report.findings if each.severity == severity]
        parts.append(f"## Phase {number}: {PHASES[severity]}")
        for code, findings in _by_code(members):
            parts += _rule(rules[code], findings, source, told.get(code))
            told.setdefault(code, number)
    parts += [*_fine(report, rules), *_risky(report, rules), *_left_alone(report, rules)]
    return "\n\n".join([*parts, *_unread(report)]) + "\n"


def spans(text: str, in_table: bool = False) -> str:
    """Text in which backticks stand around code."""
    pieces = SPAN.split(text)
    return "".join(
        in_code(each, in_table) if at % 2 else escaped(each, opens=at == 0)
        for at, each in enumerate(pieces)
    )


def fenced(lines: Sequence[str], language: str = "python") -> str:
    """A block that no line of it ends."""
    text = "\n".join(printable(line.replace("\t", "    ")) for line in lines)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _table(report: ScanReport, rules: Rules) -> str:
    rows = [["rule", "places", "effort for one", "risk"], ["---", "---:", "---", "---"]]
    for code, count in sorted(report.summary.codes.items(), key=lambda each: -each[1]):
        rule = rules[code]
        risk = "none" if rule.risk.startswith("none:") else spans(rule.risk, in_table=True)
        rows.append([f"{code} {rule.name}", f"{count:,}", rule.effort, risk])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _by_code(findings: Iterable[CodeFinding]) -> list[tuple[str, list[CodeFinding]]]:
    """Rule by rule, the one with the most places first."""
    by_rule: dict[str, list[CodeFinding]] = {}
    for each in findings:
        by_rule.setdefault(each.code, []).append(each)
    return sorted(by_rule.items(), key=lambda each: (-len(each[1]), each[0]))


def _rule(
    rule: RuleInWords, findings: Sequence[CodeFinding], source: Source, told: int | None
) -> Iterator[str]:
    """``told``: the phase in which it is said what it is about."""
    yield f"### {rule.code} {rule.name} ({counted(len(findings), 'place')})"
    yield f"As in phase {told}." if told else _facts(rule)
    by_words: dict[tuple[str, Fix | None], list[CodeFinding]] = {}
    for each in findings:
        fix = each.fix and Fix(safety=each.fix.safety, about=each.fix.about)
        by_words.setdefault((each.message, fix), []).append(each)
    for (_, fix), members in by_words.items():
        yield from _place(members[0], source) if len(members) == 1 else _places(members, source)
        if fix is not None:
            yield f"{FIXES[fix.safety]}: {spans(fix.about)}"


def _facts(rule: RuleInWords) -> str:
    facts = {
        "Why": rule.why,
        "Fix": rule.instead,
        "Worth": rule.worth,
        "Effort": f"{rule.effort} for one place",
        "Risk": rule.risk,
        "Verify": rule.verify,
    }
    return "\n".join(f"- **{name}**: {spans(text)}" for name, text in facts.items() if text)


def _place(finding: CodeFinding, source: Source) -> Iterator[str]:
    often = _often(finding, source)
    where = _code(f"{finding.path}:{finding.line}")
    yield f"{where}: {spans(finding.message)}{f'; {often}' if often else ''}"
    last = min(finding.end_line, finding.line + MOST_LINES - 1)
    if lines := source(finding.path, finding.line, last):
        yield fenced(_outdented(lines))


def _places(findings: Sequence[CodeFinding], source: Source) -> Iterator[str]:
    """Of which the same is to be said."""
    message = findings[0].message
    yield f"{spans(message[:1].upper() + message[1:])}:"
    lines = []
    for each in findings:
        code = _code("".join(source(each.path, each.line, each.line)).strip())
        said = "; ".join(filter(None, [code, _often(each, source)]))
        lines.append(f"- {_code(f'{each.path}:{each.line}')}{f': {said}' if said else ''}")
    yield "\n".join(lines)


def _often(finding: CodeFinding, source: Source) -> str:
    """How often it runs, and by what; empty where nothing is seen that makes it."""
    loop = finding.loop
    if loop is None:
        return ""
    at = loop.place
    where = f"line {at.line}" if at.path == finding.path else _code(str(at))
    if loop.words != OWN_LOOP:
        return f"{RUNS[loop.runs]}: {escaped(loop.words)} ({where})"
    head = "".join(source(at.path, at.line, at.line)).strip().removesuffix(":")
    return f"{RUNS[loop.runs]}: {_code(head)} ({where})" if head else f"{RUNS[loop.runs]} ({where})"


def _code(text: str) -> str:
    return in_code(text, in_table=False)


def _outdented(lines: Sequence[str]) -> list[str]:
    indent = len(lines[0]) - len(lines[0].lstrip())
    return [line[min(indent, len(line) - len(line.lstrip())) :] for line in lines]


def _fine(report: ScanReport, rules: Rules) -> Iterator[str]:
    """Only what the code surely has: of the rest it is no merit that nothing was found."""
    summary = report.summary
    by_family: dict[str, list[str]] = {}
    for code in summary.rules:
        if code in summary.met and code not in summary.codes:
            by_family.setdefault(rules[code].family, []).append(rules[code].name)
    if not by_family:
        return
    yield "## Looked at, and nothing found"
    yield "Calls or settings that these rules judge are in the code, and they found nothing:"
    yield "\n".join(f"- {family}: {', '.join(names)}" for family, names in by_family.items())
    if rest := len({*summary.rules} - {*summary.met} - {*summary.codes}):
        others = counted(rest, "other rule")
        yield f"{others} found nothing; whether there was anything to find is not known."


def _risky(report: ScanReport, rules: Rules) -> Iterator[str]:
    by_risk: dict[str, list[str]] = {}
    for rule in map(rules.__getitem__, report.summary.codes):
        if not rule.risk.startswith("none"):
            by_risk.setdefault(rule.risk, []).append(f"{rule.code} {rule.name}")
    if by_risk:
        yield "## Look before you change"
        yield "\n".join(f"- {spans(risk)}: {', '.join(each)}" for risk, each in by_risk.items())


def _left_alone(report: ScanReport, rules: Rules) -> Iterator[str]:
    spared = report.summary.spared
    if spared:
        yield "## Leave alone"
    for reason, words in REASONS.items():
        if members := [each for each in spared if each.reason == reason]:
            yield words
            yield _spared(members, rules)


def _spared(spared: Sequence[Spared], rules: Rules) -> str:
    by_rule: dict[str, list[str]] = {}
    for each in spared:
        by_rule.setdefault(each.code, []).append(_code(f"{each.path}:{each.line}"))
    lines = []
    for code, places in sorted(by_rule.items(), key=lambda each: (-len(each[1]), each[0])):
        more = len(places) - MOST_PLACES
        shown = [*places[:MOST_PLACES], *([f"and {more:,} more"] if more > 0 else [])]
        lines.append(f"- {code} {rules[code].name}: {', '.join(shown)}")
    return "\n".join(lines)


def _unread(report: ScanReport) -> Iterator[str]:
    summary = report.summary
    if summary.unreadable or summary.remarks:
        yield "## Notes"
        notes = [
            f"- {_code(path)} was not read: {escaped(why)}"
            for path, why in summary.unreadable.items()
        ]
        notes += [
            f"- {_code(f'{each.path}:{each.line}')}: {spans(each.message)}"
            for each in summary.remarks
        ]
        yield "\n".join(notes)
