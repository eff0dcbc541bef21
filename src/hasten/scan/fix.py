"""Scans files and fixes what can be fixed in them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from hasten.records.scan import CodeFinding, FixReport
from hasten.scan.analysis import Analysis, analyse
from hasten.scan.cache import Cache
from hasten.scan.gather import Means
from hasten.scan.link import Tree
from hasten.scan.looking import Rules
from hasten.scan.reading import UnreadableError, read
from hasten.scan.rewriting import CHANGED, Source, fix_files
from hasten.scan.scan import Survey, link, shown, survey
from hasten.scan.settings import Project
from hasten.scan.unwanted import Unwanted
from hasten.scan.worker import Reader


def fix(
    paths: Sequence[Path],
    project: Project | None = None,
    means: Means | None = None,
    *,
    unsafe: bool = False,
    write: bool = True,
) -> FixReport:
    """Without ``write`` only the differences are told."""
    tree = survey_tree(paths, project, means)
    findings = tree.look({})
    sources, refused = tree.sources(findings)
    return fix_files(sources, findings, tree.look, paths, refused, unsafe=unsafe, write=write)


def survey_tree(
    paths: Sequence[Path], project: Project | None = None, means: Means | None = None
) -> "Surveyed":
    means = means or Means(Cache(None, ""))
    found = survey(paths, project or Project(Path.cwd()), means, to_fix=True)
    means.cache.save()
    return Surveyed(found)


class Surveyed:
    """What was surveyed, with some files changed."""

    def __init__(self, found: Survey) -> None:
        self._rules, self._besides = found.rules, found.besides
        looked = [*found.rules, *found.besides]
        self._looked = Rules.of(looked)
        self._key_of = Reader([rule.code for rule in looked]).key_of
        decode = msgspec.msgpack.Decoder(Analysis).decode
        contents = found.contents()
        self._names = {path: shown(path) for path in contents}
        self._keys = {path: key for path, (key, _) in contents.items()}
        self._analyses = {
            self._names[path]: decode(encoded) for path, (_, encoded) in contents.items()
        }
        self._unwanted = Unwanted.of(self._names, found.project, looked)

    def look(self, changed: Mapping[str, str]) -> tuple[CodeFinding, ...]:
        for name, text in changed.items():
            self._analyses[name] = analyse(text, self._looked)
        tree = Tree(self._analyses)
        told = link(tree, self._analyses, self._unwanted, self._rules, "", self._besides)
        return told.findings

    def sources(self, findings: Sequence[CodeFinding]) -> tuple[dict[str, Source], dict[str, str]]:
        """Of files in which something can be fixed, and why others are not what was surveyed."""
        wanted = {each.path for each in findings if each.fix and each.fix.edits}
        sources: dict[str, Source] = {}
        refused: dict[str, str] = {}
        for path, name in self._names.items():
            if name not in wanted:
                continue
            try:
                content = read(path)
            except UnreadableError as error:
                refused[name] = str(error)
                continue
            if self._key_of(content) == self._keys[path]:
                sources[name] = Source.of(path, content)
            else:
                refused[name] = CHANGED
        return sources, refused
