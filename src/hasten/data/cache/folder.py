"""The folder of a cache: what is in it, and how entries come and go.

::

    <root>/data/.lock                  held by whoever adds or removes
    <root>/data/<2 hex>/<key>/         an entry
    <root>/data/<2 hex>/<key>.lock     held by whoever builds it
    <root>/data/<2 hex>/.new-*/        being written, locked by its writer
    <root>/data/<2 hex>/.trash-*/      being removed
    <root>/files/                      digests of files that were read

An entry appears and disappears by one rename. Only what has one of these names is touched, and no
symbolic link below ``data`` is followed.
"""

import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from hasten.host.lock import FileLock
from hasten.records.cache import MANIFEST, CacheComplaint

KEY = re.compile(r"[0-9a-f]{64}")
SHARD = re.compile(r"[0-9a-f]{2}")
NEW, TRASH = ".new-", ".trash-"
FILES = "files"


class Place(NamedTuple):
    """An entry, unread."""

    path: Path
    key: str
    bytes: int
    used_s: float
    """When it was last used."""


class CacheFolder:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.data = root / "data"

    def path(self, key: str) -> Path:
        return self.data / key[:2] / key

    def lock_to_build(self, key: str) -> FileLock:
        """Held by the one process that builds, so that the others wait and read."""
        path = self.path(key)
        _make_folder(path.parent)
        return FileLock(path.with_name(f"{key}.lock"), passing=True)

    def lock_to_change(self) -> FileLock:
        _make_folder(self.data)
        return FileLock(self.data / ".lock")

    @contextmanager
    def new(self, key: str) -> Iterator[Path]:
        """An empty folder beside the place of the entry; gone afterwards, unless renamed."""
        shard = self.path(key).parent
        with self.lock_to_change():
            _make_folder(shard)
            path = Path(tempfile.mkdtemp(prefix=NEW, dir=shard))
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
            os.close(descriptor)

    def remove(self, path: Path) -> None:
        """Under the lock to change. Readers that have it open keep what they have."""
        trash = path.with_name(f"{TRASH}{secrets.token_hex(8)}")
        try:
            path.rename(trash)
        except FileNotFoundError:
            return
        _delete(trash)

    def sweep(self) -> int:
        """Under the lock to change: what killed processes left. Returns the bytes."""
        freed = 0
        for path in self._listed(lambda name: name.startswith((NEW, TRASH))):
            if path.name.startswith(TRASH) or _is_abandoned(path):
                freed += size_of(path)
                _delete(path)
        for path in self._locks():
            lock = FileLock(path, passing=True)
            if lock.acquire(wait=False):
                lock.release()
        return freed

    def places(self) -> list[Place]:
        """All entries, the least recently used first."""
        found = []
        for path in self._listed(lambda name: bool(KEY.fullmatch(name))):
            try:
                used_s = (path / MANIFEST).stat(follow_symlinks=False).st_mtime
            except OSError:
                used_s = 0.0  # no entry that anyone could use
            found.append(Place(path, path.name, size_of(path), used_s))
        return sorted(found, key=lambda place: (place.used_s, place.key))

    def strangers(self) -> list[CacheComplaint]:
        """What nobody of ours put there."""
        if not self.data.is_dir():
            return []
        found = [
            path
            for path in sorted(self.data.iterdir())
            if path.name != ".lock" and not (SHARD.fullmatch(path.name) and _is_folder(path))
        ]
        for shard in self._shards():
            found += [each for each in sorted(shard.iterdir()) if not _is_ours(each)]
        there = [path for path in found if os.path.lexists(path)]  # locks come and go
        return [CacheComplaint(path=str(path), why=_what_it_is(path)) for path in there]

    def _locks(self) -> list[Path]:
        found = [each for shard in self._shards() for each in shard.glob("*.lock")]
        return [each for each in found if _is_ours(each)]

    def _listed(self, wanted: Callable[[str], bool]) -> list[Path]:
        found = []
        for shard in self._shards():
            try:
                found += [
                    each for each in shard.iterdir() if wanted(each.name) and _is_folder(each)
                ]
            except FileNotFoundError:
                continue
        return found

    def _shards(self) -> list[Path]:
        if not self.data.is_dir():  # which may be a link: to another disk, for its room
            return []
        shards = [each for each in self.data.iterdir() if SHARD.fullmatch(each.name)]
        return sorted(each for each in shards if _is_folder(each))


def size_of(path: Path) -> int:
    """Of the files in a folder; links count as themselves."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += (Path(folder) / name).stat(follow_symlinks=False).st_size
            except FileNotFoundError:
                continue
    return total


def _make_folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True, mode=0o700)


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat(follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _delete(path: Path) -> None:
    if _is_folder(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)  # of a link, the link alone


def _is_ours(path: Path) -> bool:
    if path.name.endswith(".lock"):
        return bool(KEY.fullmatch(path.stem)) and path.is_file() and not path.is_symlink()
    return _is_folder(path) and (
        path.name.startswith((NEW, TRASH)) or bool(KEY.fullmatch(path.name))
    )


def _what_it_is(path: Path) -> str:
    kind = "a symbolic link" if path.is_symlink() else "a folder" if path.is_dir() else "a file"
    return f"{kind} that is not the cache's; left as it is"


def _is_abandoned(path: Path) -> bool:
    """Its writer holds a lock on it until it has ended, in whatever way."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False  # its writer was done with it just now
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
