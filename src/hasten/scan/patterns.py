"""Patterns of paths, as they stand in a .gitignore."""

import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import PurePosixPath


class Patterns:
    """Of one file. The last that fits a path decides; a "!" before it takes a path back in."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = [line.rstrip("\r\n") for line in lines]

    @cached_property
    def _rules(self) -> list[tuple[re.Pattern[str], bool, bool]]:
        """An expression, whether it is of folders only, and whether it leaves out."""
        found = []
        for line in self._lines:
            text = line if line.endswith("\\ ") else line.rstrip(" ")
            if not text or text.startswith("#"):
                continue
            leaves_out = not text.startswith("!")
            text = text if leaves_out else text[1:]
            found.append((_expression(text.rstrip("/")), text.endswith("/"), leaves_out))
        return found

    def __bool__(self) -> bool:
        return bool(self._rules)

    def of(self, path: str, *, is_folder: bool) -> bool | None:
        """Whether a path, relative to where the patterns stand, is left out; None where they say
        nothing of it."""
        for expression, folders_only, leaves_out in reversed(self._rules):
            if (is_folder or not folders_only) and expression.fullmatch(path):
                return leaves_out
        return None

    def cover(self, path: str, *, is_folder: bool = False) -> bool:
        """Whether it is left out by itself or with a folder that it lies in."""
        above = [each.as_posix() for each in PurePosixPath(path).parents][:-1]
        return bool(self.of(path, is_folder=is_folder)) or any(
            self.of(each, is_folder=True) for each in above
        )


TOKENS = re.compile(r"\\.|\*\*/|/\*\*$|\*\*|\*|\?|\[!?\]?[^\]]*\]|[^\\*?\[/]+|.", re.DOTALL)
FIXED = {"**/": "(?:.*/)?", "/**": "/.+", "**": "[^/]*", "*": "[^/]*", "?": "[^/]"}


def _expression(pattern: str) -> re.Pattern[str]:
    """A pattern with a "/" before its end holds where it stands, another at any depth."""
    anchored = "/" in pattern
    parts = [_translated(each) for each in TOKENS.findall(pattern.lstrip("/"))]
    try:
        return re.compile(("" if anchored else "(?:.*/)?") + "".join(parts))
    except re.error:  # a range such as [z-a], which git takes for one that nothing fits
        return re.compile(r"(?!)")


def _translated(token: str) -> str:
    if token in FIXED:
        return FIXED[token]
    if len(token) > 1 and token[0] == "[":
        inner = token[1:-1].replace("\\", "\\\\")
        return f"[^/{inner[1:]}]" if inner.startswith("!") else f"[{inner}]"
    return re.escape(token[1:] if len(token) > 1 and token[0] == "\\" else token)
