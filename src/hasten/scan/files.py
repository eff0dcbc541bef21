"""Which files there are: those of Python that git does not ignore and no tool has made."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hasten.errors import HastenError
from hasten.scan.patterns import Patterns
from hasten.scan.vocabulary import words

LEFT_OUT = words(
    ".git .hg .svn .venv venv .tox .nox .mypy_cache .pytest_cache .ruff_cache __pycache__"
    " node_modules build dist site-packages .eggs"
)
Ignoring = tuple[tuple[Path, Patterns], ...]
"""Patterns and the folders that they stand in, the outermost first."""


@dataclass
class Files:
    found: list[Path] = field(default_factory=list)
    """In the order of the paths that were given, and of names."""
    closed: dict[Path, str] = field(default_factory=dict)
    """Folders that could not be looked into, and why."""


@dataclass(frozen=True)
class Excluded:
    """What a project leaves out, by patterns that are relative to its folder."""

    folder: Path
    patterns: Patterns

    def covers(self, path: Path, *, is_folder: bool = False) -> bool:
        if not self.patterns or not path.is_relative_to(self.folder):
            return False
        return self.patterns.cover(path.relative_to(self.folder).as_posix(), is_folder=is_folder)


NOTHING = Excluded(Path("/"), Patterns(()))


def python_files(paths: Sequence[Path], excluded: Excluded = NOTHING) -> Files:
    """Under folders all that is not ignored; a file that is named is taken, unless it is
    excluded. Paths are made absolute."""
    files = Files()
    seen: set[Path] = set()
    for path in paths:
        whole = Path(os.path.abspath(path))  # noqa: PTH100  # without ".." in it
        if not whole.exists():
            raise HastenError(f"{path} is not there.", fix="Give files or folders that are.")
        for each in _walk(whole, excluded, files) if whole.is_dir() else (whole,):
            if each not in seen and not excluded.covers(each):
                seen.add(each)
                files.found.append(each)
    return files


def _walk(top: Path, excluded: Excluded, files: Files) -> Iterator[Path]:
    """The files of a folder, then those of the folders in it. Folders that are links are not
    entered, so that none is entered twice."""
    open_: list[tuple[Path, Ignoring]] = [(top, _ignoring_above(top))]
    while open_:
        folder, ignoring = open_.pop()
        try:
            with os.scandir(folder) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            files.closed[folder] = error.strerror or str(error)
            continue
        if any(entry.name == ".gitignore" for entry in inside):
            ignoring = (*ignoring, (folder, _patterns(folder)))
        folders = []
        for entry in inside:
            path = folder / entry.name
            if entry.is_dir(follow_symlinks=False):
                if (
                    _may_enter(entry)
                    and not _is_ignored(path, ignoring, is_folder=True)
                    and not excluded.covers(path, is_folder=True)
                ):
                    folders.append((path, ignoring))
            elif entry.name.endswith(".py") and not _is_ignored(path, ignoring, is_folder=False):
                yield path
        open_ += reversed(folders)


def _may_enter(folder: "os.DirEntry[str]") -> bool:
    is_environment = Path(folder.path, "pyvenv.cfg").exists()
    return folder.name not in LEFT_OUT and not is_environment


def _is_ignored(path: Path, ignoring: Ignoring, *, is_folder: bool) -> bool:
    """By what stands nearest to it."""
    for folder, patterns in reversed(ignoring):
        said = patterns.of(path.relative_to(folder).as_posix(), is_folder=is_folder)
        if said is not None:
            return said
    return False


def _ignoring_above(folder: Path) -> Ignoring:
    """Of the folders from the repository's own down to the one above this."""
    above = folder.parents
    root = next((at for at, each in enumerate(above) if (each / ".git").exists()), None)
    if root is None or (folder / ".git").exists():
        return ()
    return tuple(
        (each, _patterns(each))
        for each in reversed(above[: root + 1])
        if (each / ".gitignore").is_file()
    )


def _patterns(folder: Path) -> Patterns:
    try:
        text = (folder / ".gitignore").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return Patterns(text.splitlines())
