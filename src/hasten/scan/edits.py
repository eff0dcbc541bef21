"""The smallest edits that change a piece of code: what rules make their fixes of.

Each takes the lines of the file and nodes of its tree, and leaves all other text as it is: spaces,
comments, trailing commas, tabs, and how lines end. An edit that cannot be made is None.
"""

import ast
import re
from collections.abc import Iterator, Sequence

from hasten.records.scan import Edit, Fix, Safety
from hasten.scan.lines import Lines
from hasten.scan.nodes import walk
from hasten.scan.outline import Block, Site
from hasten.scan.trace import body_of, last_name

COMPOUND = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.AsyncFor, ast.While, ast.If,
    ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match,
)  # fmt: skip
ASKS = ("is_available", "isinstance", "hasattr", "getattr", "len", "startswith")
"""Calls that only tell something."""
NOT_CODE = re.compile(r"\s+|#[^\r\n]*|\\")


def fix_of(safety: Safety, about: str, *edits: Edit | None) -> Fix | None:
    """None where one of the edits cannot be made."""
    made = tuple(each for each in edits if each is not None)
    return Fix(safety=safety, about=about, edits=made) if len(made) == len(edits) else None


def replace(lines: Lines, node: ast.AST, text: str) -> Edit:
    return lines.edit(lines.start(node), lines.end(node), text)


def insert_before(lines: Lines, node: ast.AST, text: str) -> Edit:
    return lines.edit(lines.start(node), lines.start(node), text)


def insert_after(lines: Lines, node: ast.AST, text: str) -> Edit:
    return lines.edit(lines.end(node), lines.end(node), text)


def replace_methods(lines: Lines, call: ast.Call, before: ast.expr, text: str) -> Edit | None:
    """Puts the text in place of all that follows ``before`` in a row of methods that ends with the
    call: ``.cpu().item()`` after ``x``. None where a comment would go with it."""
    end = lines.end(before)
    for offset, sign in signs(lines.text, end, lines.end(call)):
        if sign != ")":
            break
        end = offset + 1  # of parentheses around it
    gone = lines.text[end : lines.end(call)]
    return None if "#" in gone else lines.edit(end, lines.end(call), text)


def rename(
    lines: Lines, root: ast.AST, uses: Sequence[tuple[ast.Name, Sequence[ast.AST]]], text: str
) -> list[Edit | None]:
    """All uses of a name below a node, each with what it stands in."""
    return [
        lines.edit(start, start + len(uses[0][0].id), text) if start is not None else None
        for start in starts_of(lines, root, uses)
    ]


def starts_of(
    lines: Lines, root: ast.AST, uses: Sequence[tuple[ast.Name, Sequence[ast.AST]]]
) -> Sequence[int | None]:
    """Where the uses of a name stand; None where that is not known."""
    if not any(isinstance(each, ast.JoinedStr) for _, above in uses for each in above):
        return [lines.start(name) for name, _ in uses]
    # before Python 3.12 a tree does not tell where the parts of an f-string stand
    found = re.finditer(rf"\b{uses[0][0].id}\b", lines.text)
    inside = range(lines.start(root), lines.end(root))
    starts = [each.start() for each in found if each.start() in inside]
    return starts if len(starts) == len(uses) else [None]


def remove_statement(lines: Lines, statement: ast.stmt, body: Sequence[ast.stmt]) -> Edit | None:
    """``body`` is the block that it stands in; where it is the only one, ``pass`` takes its place.
    A comment behind it on its line goes with it."""
    place = next((number for number, each in enumerate(body) if each is statement), None)
    if place is None:
        return None
    if len(body) == 1:
        return replace(lines, statement, "pass")
    start, end = lines.start(statement), lines.end(statement)
    follows = _next_sign(lines.text, end) == ";"
    if lines.indentation(start) is not None and not follows:
        start, end = lines.line_start(start), lines.next_line(end)
        return _remove_lines(lines, start, end, opens=not place and _follows_code(lines, start))
    if (
        follows
        and place + 1 < len(body)
        and lines.indentation(lines.start(body[place + 1])) is None
    ):
        return lines.edit(start, lines.start(body[place + 1]), "")
    if place and lines.indentation(start) is None:
        return lines.edit(lines.end(body[place - 1]), end, "")
    return replace(lines, statement, "pass")


def _follows_code(lines: Lines, start: int) -> bool:
    """Whether the line above is neither empty nor a comment."""
    above = lines.text[lines.line_start(start - 1) : start].strip() if start else ""
    return bool(above) and not above.startswith("#")


def _remove_lines(lines: Lines, start: int, end: int, *, opens: bool) -> Edit:
    """Of the empty lines before and after, the more are left; none where a block begins there."""
    above = start
    while opens and _is_empty(lines, end, lines.next_line(end)):
        end = lines.next_line(end)
    while _is_empty(lines, lines.line_start(above - 1), above) and _is_empty(
        lines, end, lines.next_line(end)
    ):
        above, end = lines.line_start(above - 1), lines.next_line(end)
    return lines.edit(start, end, "")


def _is_empty(lines: Lines, start: int, end: int) -> bool:
    """Whether it is a line, with nothing but space in it."""
    return start < end and not lines.text[start:end].strip(" \t\r\n")


def insert_line_before(lines: Lines, statement: ast.stmt, line: str) -> Edit | None:
    """With the statement's indentation, above comments on it; where it does not begin its line, on
    the same line."""
    start = lines.start(statement)
    indentation = lines.indentation(start)
    if isinstance(statement, COMPOUND) and (indentation is None or _is_elif(lines, statement)):
        return None
    if indentation is None:
        return lines.edit(start, start, f"{line}; ")
    start = _above_comments(lines, start, indentation)
    return lines.edit(start, start, f"{line}{lines.newline(start)}{indentation}")


def insert_line_after(lines: Lines, statement: ast.stmt, line: str) -> Edit | None:
    """With the statement's indentation; where another follows on its line, on the same line."""
    end = lines.end(statement)
    indentation = lines.indentation(lines.start(statement))
    compound = isinstance(statement, COMPOUND)
    if compound and (indentation is None or _is_elif(lines, statement)):
        return None
    if indentation is None or (not compound and _next_sign(lines.text, end) == ";"):
        return lines.edit(end, end, f"; {line}")
    line_end = lines.line_end(_below_comments(lines, end, indentation) if compound else end)
    return lines.edit(line_end, line_end, f"{lines.newline(end)}{indentation}{line}")


def add_import(lines: Lines, tree: ast.Module, module: str) -> tuple[Edit, ...] | None:
    """``import module`` below the imports at the top; no edit where it is there already."""
    if any(
        isinstance(each, ast.Import)
        and any(name.name == module and name.asname is None for name in each.names)
        for each in tree.body
    ):
        return ()
    above = None
    for number, each in enumerate(tree.body):
        docstring = (
            not number and isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
        )
        if not docstring and not isinstance(each, ast.Import | ast.ImportFrom):
            break
        above = each
    if above is not None:
        edit = insert_line_after(lines, above, f"import {module}")
    else:
        edit = insert_line_before(lines, tree.body[0], f"import {module}")
    return (edit,) if edit is not None else None


def leave_out(site: Site, lines: Lines, about: str) -> Fix | None:
    """The call at the place, where it is a whole statement, with the ``if`` and the ``try`` that
    are there for nothing else. Unsafe, since it did something. None where a part of another
    statement would be left with nothing in it."""
    statement, block = site.statement, site.block
    if not isinstance(statement, ast.Expr) or statement.value is not site.node:
        return None
    while block is not None and (around := _only_for(block, statement, lines)) is not None:
        statement, block = around, block.parent
    body = body_of(block, site.function)
    if block is not None and len(body) == 1:
        return None
    return fix_of("unsafe", about, remove_statement(lines, statement, body))


def _only_for(block: Block, statement: ast.stmt, lines: Lines) -> ast.stmt | None:
    """The ``if`` with nothing else in it, that does nothing by asking, or the ``try`` that has
    nothing else to try."""
    match block.node:
        case ast.If(body=[only], orelse=[]) as asks if only is statement:
            stays = _is_elif(lines, asks) or any(map(_does_more, walk(asks.test)))
            return None if stays else asks
        case ast.Try(body=[only], orelse=[], finalbody=[]) as tries if only is statement:
            return tries
    return None


def _does_more(node: ast.AST) -> bool:
    """Than to ask."""
    if isinstance(node, ast.Call):
        return last_name(node.func) not in ASKS
    return isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom)


def signs(text: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    """Parentheses, commas and dots between two nodes, without space and comments."""
    while start < end:
        skipped = NOT_CODE.match(text, start, end)
        if skipped:
            start = skipped.end()
        else:
            yield start, text[start]
            start += 1


def _next_sign(text: str, start: int) -> str:
    while start < len(text) and text[start] in " \t\f":
        start += 1
    return text[start : start + 1]


def _above_comments(lines: Lines, start: int, indentation: str) -> int:
    """Where the comments begin that stand right above, if there are any; those that the file begins
    with are on the file."""
    found = start
    while line_start := lines.line_start(found):
        above = lines.line_start(line_start - 1)
        if not lines.text.startswith(f"{indentation}#", above):
            return found
        found = above + len(indentation)
    return start


def _below_comments(lines: Lines, end: int, indentation: str) -> int:
    """Where the last of the comments begins that follow a body and are indented as it is."""
    start = lines.next_line(end)
    while start < len(lines.text):
        text = lines.text[start : lines.line_end(start)]
        if text.strip() and not re.match(rf"{indentation}\s+#", text):
            break
        end = start if text.strip() else end
        start = lines.next_line(start)
    return end


def _is_elif(lines: Lines, statement: ast.stmt) -> bool:
    """An ``elif`` is a statement of the tree, but no place to put a line at."""
    return isinstance(statement, ast.If) and lines.of(statement).startswith("elif")
