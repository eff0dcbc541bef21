"""What could be fixed, in groups that can be tried before anything is written."""

import ast
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path

from hasten.records.scan import CodeFinding, FixReport
from hasten.scan.fix import Surveyed
from hasten.scan.fixing import Fixed, allowed, by_path, fixed_once, ready
from hasten.scan.rewriting import Source, fix_report, put, put_all

Group = tuple[CodeFinding, ...]
"""Findings of one file that are fixed together."""
BESIDE = "another file could not be written, and what was proven together is written together"


class Proposal:
    """All places are those of files as they were read: what a fix uncovers is not in it."""

    def __init__(self, tree: Surveyed, roots: Sequence[Path], *, unsafe: bool = False) -> None:
        """``roots`` are what may be written in. Files that cannot be are in ``refused``."""
        self._tree, self._roots, self._unsafe = tree, roots, unsafe
        self._findings = tree.look({})
        sources, self.refused = tree.sources(self._findings)
        for path, source in sources.items():
            why = put(source, source.text, roots, write=False)
            if why:
                self.refused[path] = why
        self.sources = {path: each for path, each in sources.items() if path not in self.refused}
        self.groups: list[Group] = [
            tuple(group)
            for path, found in by_path(self._findings).items()
            if path in self.sources
            for group in ready(found, allowed(unsafe=unsafe))[0]
        ]

    def texts(self, groups: Sequence[Group]) -> tuple[dict[str, str], list[Group]]:
        """The files that change, and the groups that go together; earlier ones come first."""
        texts: dict[str, str] = {}
        made: list[CodeFinding] = []
        for path in dict.fromkeys(group[0].path for group in groups):
            own = [list(group) for group in groups if group[0].path == path]
            text, fixed = fixed_once(self.sources[path].text, own)
            if fixed:
                texts[path] = text
                made += fixed
        return texts, [group for group in groups if group[0] in made]

    def content(self, path: str, text: str) -> bytes:
        """What a file would hold."""
        content = self.sources[path].holding(text)
        assert content is not None  # else it would have been refused
        return content

    def finish(self, groups: Sequence[Group], *, write: bool) -> FixReport:
        """The groups are written, all or none, or only told."""
        texts, made = self.texts(groups)
        failed = put_all(self.sources, texts, self._roots) if write else {}
        refused = self.refused | (dict.fromkeys(texts, BESIDE) | failed if failed else {})
        fixed = Fixed() if failed else Fixed(texts, [each for group in made for each in group])
        fixed.left = self._tree.look(fixed.texts)
        return fix_report(self.sources, fixed, refused, unsafe=self._unsafe, write=write)


def is_run(group: Group, source: Source, lines: Collection[int]) -> bool:
    """Whether each of its places has a line among those that were run. A function's own line is run
    where it is defined, which says nothing: of what begins there a line of its body counts."""
    bodies = _bodies(source.text)
    head_lines = {line for heads in bodies for line in heads}
    ran = {line for line in lines if line not in head_lines}
    return all(ran.intersection(_span(each, bodies)) for each in group)


def _span(finding: CodeFinding, bodies: Mapping[range, range]) -> range:
    own = range(finding.line, finding.end_line + 1)
    return next((body for head, body in bodies.items() if finding.line in head), own)


@cache
def _bodies(text: str) -> dict[range, range]:
    """Of every function and class: the lines before its body, with decorators, and those of it."""
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min(node.lineno, *(each.lineno for each in node.decorator_list), node.lineno)
            begin = node.body[0].lineno
            found[range(first, begin)] = range(begin, (node.end_lineno or begin) + 1)
    return found
