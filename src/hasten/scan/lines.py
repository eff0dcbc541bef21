"""Where the nodes of a tree stand in the text that it was made of.

The tree counts columns in bytes of UTF-8, an edit in characters; both are turned into offsets into
the text, with which everything else is worked out.
"""

import ast
import re
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate, count
from operator import add

from hasten.records.scan import Edit

LINE_END = re.compile(r"\r\n|\r|\n")
"""What Python ends a line at; ``splitlines`` also takes form feeds and others for an end."""


class Lines:
    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _starts(self) -> list[int]:
        if "\r" in self.text:
            return [0, *(each.end() for each in LINE_END.finditer(self.text))]
        lengths = accumulate(map(len, self.text.split("\n")[:-1]))
        return [0, *map(add, lengths, count(1))]

    @cached_property
    def longest(self) -> int:
        """The length of the longest line."""
        return max(map(len, LINE_END.split(self.text)))

    def newline(self, offset: int) -> str:
        """How the line ends; the last one as the one above it does."""
        found = LINE_END.search(self.text, offset)
        above = self.text[: self.line_start(offset)]
        if found is None:
            found = re.search(r"(\r\n|\r|\n)\Z", above)
        return found.group() if found else "\n"

    def offset(self, line: int, column: int) -> int:
        """Of a place as the tree counts it: columns are bytes, from 0."""
        start = self._starts[line - 1]
        if self.text.isascii():
            return start + column
        following = self.text[start : start + column]
        if following.isascii():
            return start + column
        return start + len(following.encode()[:column].decode(errors="ignore"))

    def start(self, node: ast.AST) -> int:
        """Of a function or class: where its first decorator starts."""
        decorators = getattr(node, "decorator_list", None)
        if decorators:
            return self.text.rindex("@", 0, self.start(decorators[0]))
        return self.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def end(self, node: ast.AST) -> int:
        return self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def column(self, node: ast.AST) -> int:
        """In characters, from 1."""
        return self._column(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def end_column(self, node: ast.AST) -> int:
        """Of what follows it, in characters, from 1."""
        return self._column(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def _column(self, line: int, column: int) -> int:
        if self.text.isascii():
            return column + 1
        return self.offset(line, column) - self._starts[line - 1] + 1

    def of(self, node: ast.AST) -> str:
        return self.text[self.start(node) : self.end(node)]

    def line_start(self, offset: int) -> int:
        return self._starts[bisect_right(self._starts, offset) - 1]

    def line_end(self, offset: int) -> int:
        """Without what ends the line."""
        found = LINE_END.search(self.text, offset)
        return found.start() if found else len(self.text)

    def next_line(self, offset: int) -> int:
        found = LINE_END.search(self.text, offset)
        return found.end() if found else len(self.text)

    def indentation(self, offset: int) -> str | None:
        """What stands before it on its line; None where that is more than space, and where the
        line goes on from the one above."""
        start = self.line_start(offset)
        before = self.text[start:offset]
        goes_on = self.text[:start].rstrip("\r\n").endswith("\\")
        return None if before.strip() or goes_on else before

    def edit(self, start: int, end: int, text: str) -> Edit:
        line, column = self._place(start)
        end_line, end_column = self._place(end)
        return Edit(line=line, column=column, end_line=end_line, end_column=end_column, text=text)

    def _place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def span(self, edit: Edit) -> tuple[int, int]:
        """The offsets that it goes from and to. Raises ValueError if there is no such place."""
        return self._of_place(edit.line, edit.column), self._of_place(
            edit.end_line, edit.end_column
        )

    def _of_place(self, line: int, column: int) -> int:
        if not 1 <= line <= len(self._starts):
            raise ValueError(f"there is no line {line}")
        offset = self._starts[line - 1] + column - 1
        if column < 1 or offset > self.next_line(self._starts[line - 1]):
            raise ValueError(f"line {line} has no column {column}")
        return offset


def lines_of(text: str) -> list[str]:
    """As Python counts them: a form feed ends none."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
