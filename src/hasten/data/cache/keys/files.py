"""The content of files, as digests that are remembered as long as the file is the same."""

import hashlib
import io
import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from hasten.errors import HastenError
from hasten.host.files import file_clock_s, write_atomically
from hasten.records.record import Record, from_json, to_json

SETTLED_S = 2.0
"""A file that changed just now may change again within one tick of its clock, unnoticed."""
ATTEMPTS = 3
LONGEST = 4096
"""Bytes of a path."""


class Signature(NamedTuple):
    """What changes with the content. The change time cannot be set back as the other can."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class Remembered(Record, frozen=True, kw_only=True):
    signature: Signature
    sha256: str


class FileDigests:
    """By path; kept in ``folder`` for other processes, where there is one."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._known: dict[str, Remembered] = {}

    def digest(self, path: Path) -> Remembered:
        name = str(path.absolute())
        known = self._known.get(name)
        if known is not None and known.signature == signature_of(path.stat()):
            return known
        with _open_plain(path) as file:
            now = signature_of(os.fstat(file.fileno()))
            known = self._read(name)
            if known is not None and known.signature == now:
                self._known[name] = known
                return known
            for _ in range(ATTEMPTS):
                if _is_settled(now):
                    _write_back(file.fileno())
                file.seek(0)
                made = Remembered(
                    signature=now, sha256=hashlib.file_digest(file, "sha256").hexdigest()
                )
                now = signature_of(os.fstat(file.fileno()))
                if now == made.signature:
                    self._remember(name, made)
                    return made
        raise HastenError(
            f"{path} changes while it is read.", fix="Wait until whoever writes it is done."
        )

    def _remember(self, name: str, made: Remembered) -> None:
        if not _is_settled(made.signature):
            return
        self._known[name] = made
        if self._folder is not None:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                write_atomically(self._place(name), to_json(made))
            except OSError:
                return  # it is digested again next time; what cannot be stored is told elsewhere

    def _read(self, name: str) -> Remembered | None:
        if self._folder is None:
            return None
        try:
            return from_json(self._place(name).read_bytes(), Remembered, where=name)
        except (OSError, HastenError):
            return None

    def _place(self, name: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{hashlib.sha256(os.fsencode(name)).hexdigest()[:32]}.json"


def signature_of(status: os.stat_result) -> Signature:
    return Signature(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )


def _is_settled(signature: Signature) -> bool:
    return file_clock_s() - max(signature.modified_ns, signature.changed_ns) / 1e9 > SETTLED_S


def _write_back(descriptor: int) -> None:
    """Whoever has the file mapped changes its times by the first write to a page that is on disk,
    and by no other."""
    with suppress(OSError):
        os.fsync(descriptor)


def forget_digests(folder: Path) -> None:
    """Those that were kept there, and nothing else."""
    for path in folder.glob("*.json"):
        if re.fullmatch(r"[0-9a-f]{32}", path.stem):
            path.unlink(missing_ok=True)


def what_it_names(text: str) -> Literal["file", "folder"] | None:
    """Whether a text is the path of something that is there. For a folder it must have a name and a
    slash: words are often those of folders too, as "train" or "/"."""
    if len(text) > LONGEST:
        return None
    try:
        mode = os.stat(text).st_mode  # noqa: PTH116 - thousands of them
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(mode):
        return "file"
    return "folder" if stat.S_ISDIR(mode) and "/" in text and text.strip("./") else None


def names_here() -> set[str]:
    """What is in the folder where we are."""
    try:
        return set(os.listdir())  # noqa: PTH208 - names, not paths
    except OSError:
        return set()


def _open_plain(path: Path) -> io.BufferedReader:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise HastenError(
            f"{path} is not a file.",
            fix="Name the files in it, for example by sorted(folder.glob('*')).",
        )
    return os.fdopen(descriptor, "rb")
