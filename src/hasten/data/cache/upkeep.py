"""Looking after a cache: list, verify, prune, clear. Only entries are touched; what else lies in
the folder is told and left as it is."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from hasten.data.cache import evict
from hasten.data.cache.entry import BadEntryError, OpenEntry
from hasten.data.cache.folder import FILES, CacheFolder, Place
from hasten.data.cache.keys.files import forget_digests
from hasten.errors import HastenError
from hasten.records.cache import (
    CacheComplaint,
    CacheEntry,
    CacheListing,
    CacheManifest,
    CacheRemoval,
    CacheVerification,
)

Tell = Callable[[str], None]


def list_entries(root: Path) -> CacheListing:
    """The last used first."""
    folder = _folder(root)
    entries, complaints = _read_all(folder.places())
    return CacheListing(
        folder=str(root),
        entries=tuple(reversed(entries)),
        bytes=sum(each.bytes for each in entries),
        limit_bytes=evict.default_limit(root),
        complaints=(*complaints, *folder.strangers()),
    )


def verify(root: Path, tell: Tell) -> CacheVerification:
    """Reads every byte; entries that are not what their manifests say are removed."""
    folder = _folder(root)
    good, size = 0, 0
    removed = []
    for place in folder.places():
        tell(f"reading {place.key[:12]}, {place.bytes:,} bytes")
        try:
            with OpenEntry(place.path) as entry:
                manifest = entry.manifest(place.key, using=False)
                entry.check_contents(manifest)
                entry.result(manifest)
        except BadEntryError as error:
            if place.path.exists():  # else another process removed it meanwhile
                removed.append(CacheComplaint(path=str(place.path), why=str(error)))
        else:
            good, size = good + 1, size + manifest.bytes
    with _changing(folder):
        for complaint in removed:
            folder.remove(Path(complaint.path))
    return CacheVerification(
        folder=str(root),
        good=good,
        bytes=size,
        removed=tuple(removed),
        complaints=tuple(folder.strangers()),
    )


def prune(root: Path, *, limit_bytes: int | None, older_than_s: float | None) -> CacheRemoval:
    """What was not used for so long, then the least recently used down to the limit; the default
    limit where neither is named."""
    folder = _folder(root)
    if limit_bytes is None and older_than_s is None:
        limit_bytes = evict.default_limit(root)

    def remove() -> list[Place]:
        old = [] if older_than_s is None else evict.remove_older(folder, older_than_s)
        over = [] if limit_bytes is None else evict.make_room(folder, 0, limit_bytes)
        return [*old, *over]

    return _removal(folder, remove)


def clear(root: Path) -> CacheRemoval:
    folder = _folder(root)

    def remove() -> list[Place]:
        forget_digests(root / FILES)
        return evict.make_room(folder, 0, limit_bytes=-1)

    return _removal(folder, remove)


def _folder(root: Path) -> CacheFolder:
    """One that is not there yet is empty; what cannot be read is told."""
    folder = CacheFolder(root)
    try:
        os.listdir(folder.data)  # noqa: PTH208 - to see whether it can be
    except FileNotFoundError:
        return folder
    except OSError as error:
        raise _cannot_be("read", root, error) from error
    return folder


def _removal(folder: CacheFolder, remove: Callable[[], list[Place]]) -> CacheRemoval:
    before = folder.places()
    entries = {each.key: each for each in _read_all(before)[0]}
    with _changing(folder):
        swept = folder.sweep()
        removed = remove()
    kept = folder.places()
    return CacheRemoval(
        folder=str(folder.root),
        removed=tuple(entries.get(each.key) or _unreadable(each) for each in removed),
        freed_bytes=swept + sum(each.bytes for each in removed),
        kept=len(kept),
        kept_bytes=sum(each.bytes for each in kept),
        complaints=tuple(folder.strangers()),
    )


@contextmanager
def _changing(folder: CacheFolder) -> Iterator[None]:
    """Of a folder that is not there nothing is changed, nor is it made."""
    if not folder.data.is_dir():
        yield
        return
    try:
        with folder.lock_to_change():
            yield
    except OSError as error:
        raise _cannot_be("changed", folder.root, error) from error


def _cannot_be(done: str, root: Path, error: OSError) -> HastenError:
    return HastenError(
        f"The cache in {root} cannot be {done}: {error.strerror}.",
        fix="Mend its permissions, or name another with --folder.",
    )


def _read_all(places: list[Place]) -> tuple[list[CacheEntry], list[CacheComplaint]]:
    entries, complaints = [], []
    for place in places:
        try:
            with OpenEntry(place.path) as entry:
                entries.append(_entry(place, entry.manifest(place.key, using=False)))
        except BadEntryError as error:
            if place.path.exists():
                complaints.append(CacheComplaint(path=str(place.path), why=str(error)))
    return entries, complaints


def _entry(place: Place, manifest: CacheManifest) -> CacheEntry:
    return CacheEntry(
        key=place.key,
        builder=manifest.builder,
        bytes=place.bytes,
        arrays=len(manifest.arrays),
        created=manifest.created,
        last_used=_moment(place.used_s),
    )


def _unreadable(place: Place) -> CacheEntry:
    return CacheEntry(
        key=place.key,
        builder="",
        bytes=place.bytes,
        arrays=0,
        created="",
        last_used=_moment(place.used_s),
    )


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
