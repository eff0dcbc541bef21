"""Edits of what a call is given. As in scan.edits, all other text stays as it is."""

import ast
import re

from hasten.records.scan import Edit
from hasten.scan.edits import replace_methods, signs
from hasten.scan.lines import LINE_END, Lines

COLUMNS = 100
"""That a line may have which a fix makes longer, or as many as the longest of its file."""


def add_keyword(
    lines: Lines, call: ast.Call, name: str, value: str, gone: Edit | None = None
) -> Edit | None:
    """Behind the last argument; on a line of its own where that one has a line and a comma, and
    where the line would become too long. ``gone`` is what is removed behind the call.

    None where it is given already, or may be: by ``**options``."""
    if any(word.arg in (name, None) for word in call.keywords):
        return None
    arguments = [*call.args, *call.keywords]
    closing = lines.end(call) - 1
    if lines.text[closing] != ")":
        return None  # before Python 3.12 a tree does not tell where the parts of an f-string stand
    if not arguments:
        return lines.edit(closing, closing, f"{name}={value}")
    last = max(arguments, key=lines.end)
    if isinstance(last, ast.GeneratorExp) and lines.end(last) == closing + 1:
        return None  # its parentheses are those of the call
    end, comma = lines.end(last), None
    for offset, sign in signs(lines.text, end, closing):
        if sign == ")":
            end = offset + 1
        else:
            comma = offset
    indentation = lines.indentation(lines.start(last))
    if comma is not None and indentation is not None and lines.line_end(comma) < closing:
        line_end = lines.line_end(comma)
        return lines.edit(line_end, line_end, f"{lines.newline(comma)}{indentation}{name}={value},")
    added = f", {name}={value}"
    if _width(lines, end, gone) + len(added) > _widest(lines):
        added = f",{lines.newline(end)}{_indentation(lines, call)}{name}={value}"
    return lines.edit(end, end, added)


def take_over_argument(
    lines: Lines, made: ast.Call, method: ast.Call, name: str, value: str
) -> list[Edit | None]:
    """``f(a, k=v)`` of ``f(a).method(v)``. Where what the method is given stands on a line of its
    own, and what the call is given does not, that line is for both."""
    gone = replace_methods(lines, method, made, "")
    keyword = add_keyword(lines, made, name, value, gone)
    before, after = _space_around(lines, method)
    is_wrapped = LINE_END.search(before) is not None and made.lineno == made.end_lineno
    if keyword is None or not is_wrapped or not (made.args or made.keywords):
        return [keyword, gone]
    opening, closing = _opening(lines, made) + 1, lines.end(made) - 1
    end = lines.span(keyword)[0]
    indentation = LINE_END.split(before)[-1]
    added = f", {name}={value}"
    behind = lines.line_end(lines.end(method)) - lines.end(method) + 1
    width = len(indentation) + closing - opening + len(added)
    if width + (0 if LINE_END.search(after) else behind) > _widest(lines):
        added = f",{lines.newline(end)}{indentation}{name}={value}"
    return [
        lines.edit(opening, opening, before),
        lines.edit(end, end, added),
        lines.edit(closing, closing, after),
        gone,
    ]


def insert_into_call(lines: Lines, call: ast.Call, text: str) -> Edit:
    """Right behind the parenthesis that the arguments begin with."""
    start = _opening(lines, call) + 1
    return lines.edit(start, start, text)


def text_of_arguments(lines: Lines, call: ast.Call) -> str | None:
    """As they are written, to be used in another call. None where a comment stands there."""
    text = lines.text[_opening(lines, call) + 1 : lines.end(call) - 1].strip()
    return None if "#" in text else text.removesuffix(",")


def _widest(lines: Lines) -> int:
    return max(COLUMNS, lines.longest)


def _width(lines: Lines, offset: int, gone: Edit | None) -> int:
    """Of the line that the offset is on, once something is gone from its end."""
    end = lines.line_end(offset)
    width = end - lines.line_start(offset)
    start, stop = lines.span(gone) if gone is not None else (end, end)
    return width - (end - start) + lines.line_end(stop) - stop if start <= end else width


def _indentation(lines: Lines, call: ast.Call) -> str:
    """Of the last argument that begins a line; else as far as the parenthesis reaches."""
    begun = [lines.indentation(lines.start(each)) for each in (*call.args, *call.keywords)]
    found = [each for each in begun if each is not None]
    if found:
        return found[-1]
    start = _opening(lines, call) + 1
    return re.sub(r"[^\t]", " ", lines.text[lines.line_start(start) : start])


def _space_around(lines: Lines, call: ast.Call) -> tuple[str, str]:
    """Before all that a call is given, and behind it."""
    text = lines.text[_opening(lines, call) + 1 : lines.end(call) - 1]
    return text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]


def _opening(lines: Lines, call: ast.Call) -> int:
    """The offset of the parenthesis that the arguments begin with."""
    return next(
        offset
        for offset, sign in signs(lines.text, lines.end(call.func), lines.end(call))
        if sign == "("
    )
