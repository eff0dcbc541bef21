"""Reads the Python files under some paths and says what in them costs time or memory."""

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from hasten.errors import HastenError
from hasten.records.finding import Place
from hasten.records.record import digest_of
from hasten.records.scan import CodeFinding, Remark, ScanReport, ScanSummary, Spared
from hasten.scan.analysis import Analysis
from hasten.scan.cache import Cache
from hasten.scan.choice import chosen, codes_of, meant_by
from hasten.scan.files import Excluded, Files, python_files
from hasten.scan.gather import Means, gather
from hasten.scan.link import Tree
from hasten.scan.patterns import Patterns
from hasten.scan.registry import all_rules
from hasten.scan.rule import Rule
from hasten.scan.settings import Project
from hasten.scan.unwanted import Unwanted
from hasten.scan.waits import in_vain
from hasten.scan.worker import Answer

LAST = "last"
"""The key of what was told last: where nothing has changed since, it is told again."""
COMMENT_WITHOUT_CODES = "`hasten: ignore` ignores nothing without codes, such as ignore[HST201]."


class Told(msgspec.Struct, frozen=True, array_like=True):
    """What analyses of many files come to, without those that are ignored in whole files."""

    of: str
    """Digest of all that it was worked out from."""
    findings: tuple[CodeFinding, ...]
    spared: tuple[Spared, ...]
    remarks: tuple[Remark, ...]
    failures: dict[str, str]
    met: tuple[str, ...]


@dataclass(frozen=True)
class Survey:
    """Files that were looked at, each by itself."""

    project: Project
    rules: Sequence[Rule]
    files: Files
    answers: Mapping[Path, Answer]
    besides: Sequence[Rule] = ()
    """Rules that looked as well, and of which nothing is told."""

    def contents(self) -> "Contents":
        return {
            path: (each.key, each.analysis)
            for path, each in self.answers.items()
            if each.analysis is not None
        }


def survey(
    paths: Sequence[Path], project: Project, means: Means, *, to_fix: bool = False
) -> Survey:
    """What is to be fixed is also looked at by all rules for waits, whichever are chosen: they are
    fixed all or none."""
    settings = project.settings
    rules = chosen(settings.select, settings.ignore)
    besides = [each for each in all_rules() if to_fix and each.waits and each not in rules]
    files = python_files(paths, Excluded(project.folder, Patterns(settings.exclude)))
    answers = gather(files.found, [rule.code for rule in (*rules, *besides)], means)
    return Survey(project, rules, files, answers, besides)


def scan(
    paths: Sequence[Path],
    project: Project | None = None,
    means: Means | None = None,
    hot: Collection[Place] = (),
) -> ScanReport:
    """``project`` says what to look for and where not to; ``hot`` are lines that were seen to run
    every step. Findings come in the order of files and lines, whatever was cached and however many
    processes there were."""
    project = project or Project(Path.cwd())
    means = means or Means(Cache(None, ""))
    found = survey(paths, project, means)
    contents, answers = found.contents(), found.answers
    told = _tell(contents, found.rules, project, means.cache, hot)
    means.cache.save()
    unreadable = {shown(path): each.failure for path, each in answers.items() if each.failure}
    closed = {shown(path): why for path, why in found.files.closed.items()}
    return ScanReport(
        findings=told.findings,
        summary=ScanSummary(
            files=len(contents) - len(told.failures),
            skipped=len(answers) - len(contents) - len(unreadable),
            unreadable=dict(sorted({**unreadable, **closed, **told.failures}.items())),
            codes=dict(sorted(Counter(each.code for each in told.findings).items())),
            severities=dict(Counter(each.severity for each in told.findings)),
            rules=tuple(rule.code for rule in found.rules),
            met=told.met,
            spared=told.spared,
            remarks=told.remarks,
        ),
    )


Contents = Mapping[Path, tuple[str, bytes]]
"""Keys and analyses, still encoded: they are not looked at where nothing has changed."""


def _tell(
    contents: Contents,
    rules: Sequence[Rule],
    project: Project,
    cache: Cache,
    hot: Collection[Place],
) -> Told:
    names = {path: shown(path) for path in contents}
    seen = [Place(path=shown(Path(each.path)), line=each.line) for each in hot]
    of = digest_of(
        [
            [(names[path], key) for path, (key, _) in contents.items()],
            [rule.code for rule in rules],
            [str(project.folder), str(Path.cwd()), project.settings],
            seen,
        ]
    )
    last = cache.get(LAST)
    if last is not None:
        told = msgspec.msgpack.decode(last, type=Told)
        if told.of == of:
            return told
    decoder = msgspec.msgpack.Decoder(Analysis)
    analyses = {names[path]: decoder.decode(encoded) for path, (_, encoded) in contents.items()}
    unwanted = Unwanted.of(names, project, rules)
    told = link(Tree(analyses, seen), analyses, unwanted, rules, of)
    cache.put(LAST, msgspec.msgpack.encode(told))
    return told


def link(
    tree: Tree,
    analyses: Mapping[str, Analysis],
    unwanted: Unwanted,
    rules: Sequence[Rule],
    of: str,
    besides: Sequence[Rule] = (),
) -> Told:
    """Of the rules ``besides`` nothing is told, but that there are waits which they found."""
    looked = {rule.code: rule for rule in (*rules, *besides)}
    untold = {rule.code for rule in besides}
    findings, spared = [], tree.seldom()
    waiting = tree.kept_waiting(looked)
    for each in tree.findings(looked):
        is_unwanted = each.code in untold or unwanted.covers(each.code, each.path)
        is_ignored = _is_ignored(each, analyses[each.path])
        if is_unwanted or is_ignored:
            waiting.add((each.path, each.group))
        if is_unwanted:
            continue
        if is_ignored:
            spared.append(Spared(code=each.code, path=each.path, line=each.line, reason="ignored"))
        else:
            findings.append(each)
    return Told(
        of=of,
        findings=tuple(
            _unless_in_vain(each, waiting)
            for each in sorted(
                findings, key=lambda each: (each.path, each.line, each.column, each.code)
            )
        ),
        spared=tuple(sorted(spared, key=lambda each: (each.path, each.line, each.code))),
        remarks=tuple(_remarks(analyses)),
        failures={name: each.failure for name, each in analyses.items() if each.failure},
        met=tuple(sorted({code for each in analyses.values() for code in each.met})),
    )


def _unless_in_vain(finding: CodeFinding, waiting: Collection[tuple[str, str]]) -> CodeFinding:
    """Its fix is not made where its group has a wait that is left."""
    if not finding.group or (finding.path, finding.group) not in waiting:
        return finding
    return msgspec.structs.replace(finding, fix=in_vain(finding.fix))


def _is_ignored(finding: CodeFinding, analysis: Analysis) -> bool:
    """By a comment on its own first or last line, or on that of its statement."""
    lines = finding.line, finding.end_line, *analysis.statements.get(finding.line, ())
    codes = {code for line in lines for code in analysis.ignored.get(line, ())}
    return any(rule.code == finding.code for code in codes for rule in meant_by(code))


def _remarks(analyses: Mapping[str, Analysis]) -> list[Remark]:
    """On comments that do not do what they seem to."""
    found = []
    for name, analysis in analyses.items():
        for line, codes in analysis.ignored.items():
            if not codes:
                found.append(Remark(path=name, line=line, message=COMMENT_WITHOUT_CODES))
            for code in codes:
                try:
                    codes_of([code])
                except HastenError as error:
                    found.append(Remark(path=name, line=line, message=str(error)))
    return found


def shown(path: Path) -> str:
    """Relative to where one is, if it lies there; names that are no text are shown as such."""
    inner = str(path).removeprefix(f"{os.getcwd()}/")  # noqa: PTH109  # of thousands of paths
    return os.fsencode(inner).decode(errors="replace")
