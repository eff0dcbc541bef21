"""Imports that only served what a fix has taken out."""

import ast
import re
from pathlib import PurePath

from hasten.records.scan import Edit
from hasten.scan.edits import remove_statement
from hasten.scan.lines import Lines
from hasten.scan.patch import patched, spans


def without_idle_imports(path: str, before: str, after: str) -> str:
    """``after`` without the imports of names that are used in ``before`` and no more in it. A name
    that still stands anywhere, be it in a comment, counts as used. What an ``__init__.py`` imports
    others may import from there."""
    if PurePath(path).name == "__init__.py":
        return after
    lines, tree = Lines(after), ast.parse(after)
    for statement in tree.body:
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        for place, alias in enumerate(statement.names):
            if not _count(alias, after) == 1 < _count(alias, before):
                continue
            edit = _remove(lines, tree, statement, place)
            if edit is not None:
                less = patched(after, spans(lines, [edit]))
                above = after[: lines.start(statement)]
                if not above.strip():  # a file does not begin with blank lines
                    less = above + less[len(above) :].lstrip("\r\n")
                return without_idle_imports(path, before, less)
    return after


def _count(alias: ast.alias, text: str) -> int:
    name = alias.asname or alias.name.partition(".")[0]
    return len(re.findall(rf"\b{re.escape(name)}\b", text))


def _remove(
    lines: Lines, tree: ast.Module, statement: ast.Import | ast.ImportFrom, place: int
) -> Edit | None:
    """None for one that its owner has said something about."""
    names = statement.names
    text = lines.text[lines.start(statement) : lines.line_end(lines.end(statement))]
    if "#" in text:
        return None
    if len(names) == 1:
        return remove_statement(lines, statement, tree.body)
    if place + 1 < len(names):
        return lines.edit(lines.start(names[place]), lines.start(names[place + 1]), "")
    return lines.edit(lines.end(names[place - 1]), lines.end(names[place]), "")
