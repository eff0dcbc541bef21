"""The cache: look up, or build once and keep."""

import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hasten.data.cache import evict
from hasten.data.cache.entry import BadEntryError, OpenEntry, write_entry
from hasten.data.cache.folder import FILES, CacheFolder, size_of
from hasten.data.cache.keys.files import FileDigests, signature_of
from hasten.data.cache.keys.key import Key, arguments_by_name, make_key
from hasten.data.cache.parts import Parts, Progress
from hasten.data.cache.parts import join as join_parts
from hasten.data.cache.randomness import GlobalGenerators
from hasten.data.cache.tree import TakenApart
from hasten.errors import HastenError
from hasten.host.amounts import parse_bytes
from hasten.host.folders import cache_root
from hasten.host.lock import FileLock

Build = Callable[[set[str]], Any]
"""Builds, and adds the global random generators that it drew from in other processes."""
_building = threading.local()
"""Keys that this thread builds: a builder that calls itself must not wait for itself."""


class DatasetCache:
    """Results of functions and files as memory-mapped arrays, kept in a folder.

    Any number of processes and threads may use one folder. One builds an entry, the others wait
    for it. ``limit`` is the size of the whole folder, such as ``"20GB"``; where a new entry would
    pass it, the least recently used ones go. None means 20 GB or a tenth of the disk, whichever is
    less. Where the folder cannot be written, results are built and returned as if there were no
    cache, and a warning says so once.
    """

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, limit: str | int | None = None
    ) -> None:
        self._named = None if folder is None else Path(folder).absolute()
        self._limit = parse_bytes(limit) if isinstance(limit, str) else limit
        self._file_digests: FileDigests | None = None
        self._warned: set[str] = set()

    @property
    def folder(self) -> Path:
        """Where it is; ``hasten`` in the user's cache folder unless another was named."""
        return self._named or cache_root()

    @property
    def limit_bytes(self) -> int:
        return evict.default_limit(self.folder) if self._limit is None else self._limit

    def get_or_build(self, build: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """``build(*args, **kwargs)``, from the cache where it is there. Arrays are read-only."""
        arguments = arguments_by_name(build, args, kwargs)
        return self.look_up(build, arguments, lambda _: build(*args, **kwargs))

    def read(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """The columns of a CSV, Parquet or HDF5 file, by name; texts as ``hasten.data.Strings``."""
        from hasten.data.cache.readers import reader_for

        file = Path(path)
        columns: dict[str, Any] = self.get_or_build(reader_for(file), file)
        return columns

    def build_parts(
        self,
        function: Callable[..., Any],
        parts: Iterable[Any],
        /,
        *args: Any,
        join: bool = True,
        workers: int | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """``function(part, *args)`` for each part, in processes, in order; kept as one entry.

        What the parts give is joined along the first axis (of dicts and tuples, value by value),
        or listed without ``join``. ``workers`` is how many processes, as many as cores are allowed
        if None. ``progress(done, total)`` is called as parts are done. A function of the script
        itself, or without a name, cannot be sent to other processes: it runs in this one, and a
        warning says so.
        """
        work = Parts(function, list(parts), args)

        def build(drawn: set[str]) -> Any:
            reason = work.why_in_process() if workers != 1 else None
            if reason:
                self._warn(f"parts {reason}", f"Parts are built in this process: {reason}.")
            results = work.build(workers, progress)
            drawn |= work.drawn
            return join_parts(results) if join and results else results

        return self.look_up(function, {"parts": work.parts, "args": args, "join": join}, build)

    def look_up(
        self,
        builder: Callable[..., Any],
        arguments: Mapping[str, Any],
        build: Build,
        files: Iterable[Path] = (),
    ) -> Any:
        """What all ways to use a cache have in common. The key is of builder, arguments and files;
        ``build`` is called where the entry is not there."""
        folder = self._folder()
        digests = self._digests(folder)
        key = make_key(builder, arguments, files=files, file_digests=digests)
        if folder is None or key.digest in _keys_of_this_thread():
            return build(set())
        found = _find(folder, key.digest)
        return found[0] if found else self._build_once(folder, key, build)

    def _folder(self) -> CacheFolder | None:
        try:
            return CacheFolder(self.folder)
        except HastenError as error:
            self._warn("folder", f"{error.what} Results are not kept. {error.fix}")
            return None

    def _digests(self, folder: CacheFolder | None) -> FileDigests:
        if self._file_digests is None:
            self._file_digests = FileDigests(folder.root / FILES if folder else None)
        return self._file_digests

    def _build_once(self, folder: CacheFolder, key: Key, build: Build) -> Any:
        lock = self._lock(folder, key)
        try:
            found = _find(folder, key.digest) if lock is not None else None
            if found:
                return found[0]  # whoever held the lock has built it
            return self._build(folder, key, build, keep=lock is not None)
        finally:
            if lock is not None:
                self._release(lock)

    def _lock(self, folder: CacheFolder, key: Key) -> FileLock | None:
        """None where there is no writing in the folder."""
        try:
            lock = folder.lock_to_build(key.digest)
            lock.acquire()
        except OSError as error:
            self._warn(
                "disk",
                f"The cache folder {folder.root} cannot be written ({error.strerror}), so that "
                f"results are not kept. Mend it, or name another: DatasetCache(folder=...).",
            )
            return None
        return lock

    def _release(self, lock: FileLock) -> None:
        try:
            lock.release()
        except OSError:
            lock.forget()  # the file stays; it hinders nobody

    def _build(self, folder: CacheFolder, key: Key, build: Build, *, keep: bool) -> Any:
        generators = GlobalGenerators()
        with _noted(key.digest):
            elsewhere: set[str] = set()
            result = build(elsewhere)
        drawn = sorted({*generators.drawn_from(), *elsewhere})
        if drawn:
            self._warn(
                f"random {key.builder}",
                f"{key.builder} drew from the global random generator of {', '.join(drawn)}: its "
                "result is another each time and is not kept. Give it a seed as an argument, and "
                "a generator made of that.",
            )
            return result
        changed = [path for path, known in key.files.items() if _signature(path) != known.signature]
        if changed:
            self._warn(
                f"changed {changed[0]}",
                f"{changed[0]} changed while {key.builder} was built: the result is not kept.",
            )
            return result
        return self._keep(folder, key, result) if keep else result

    def _keep(self, folder: CacheFolder, key: Key, result: Any) -> Any:
        taken = TakenApart(result)
        size = sum(array.nbytes for array in taken.arrays)
        if not self._fits(size, key.builder):
            return result
        try:
            return self._write(folder, key, taken, result)
        except OSError as error:
            self._warn(
                "disk",
                f"The result of {key.builder} ({size:,} bytes) could not be kept in {folder.root}: "
                f"{error.strerror or error}. Make room there, or name another folder: "
                "DatasetCache(folder=...).",
            )
            return result

    def _fits(self, size: int, builder: str) -> bool:
        if size <= self.limit_bytes:
            return True
        self._warn(
            f"large {builder}",
            f"The result of {builder} has {size:,} bytes, more than the limit of the whole cache "
            f"({self.limit_bytes:,} bytes): it is not kept. Raise the limit.",
        )
        return False

    def _write(self, folder: CacheFolder, key: Key, taken: TakenApart, result: Any) -> Any:
        """The result as every later call will get it."""
        with folder.new(key.digest) as new:
            manifest = write_entry(new, key.digest, key.builder, taken)
            size = size_of(new)
            if not self._fits(size, key.builder):
                return result
            with OpenEntry(new) as entry:
                kept = entry.result(manifest)  # before anyone can remove it
            with folder.lock_to_change():
                folder.remove(folder.path(key.digest))  # a damaged one: there was no good one
                evict.make_room(folder, size, self.limit_bytes)
                os.rename(new, folder.path(key.digest))  # noqa: PTH104 - a folder
        return kept

    def _warn(self, about: str, message: str) -> None:
        if about not in self._warned:
            self._warned.add(about)
            warnings.warn(message, RuntimeWarning, stacklevel=2)


def _find(folder: CacheFolder, key: str) -> tuple[Any] | None:
    """The result, if it is there; no exception is left for that of a builder to hang on to."""
    try:
        return (read_entry(folder, key),)
    except BadEntryError:
        return None


def read_entry(folder: CacheFolder, key: str) -> Any:
    """A hit: the manifest, the sizes of its files, and maps of them."""
    with OpenEntry(folder.path(key)) as entry:
        return entry.result(entry.manifest(key))


def _signature(path: Path) -> object:
    try:
        return signature_of(path.stat())
    except OSError:
        return None


def _keys_of_this_thread() -> set[str]:
    if not hasattr(_building, "keys"):
        _building.keys = set()
    keys: set[str] = _building.keys
    return keys


@contextmanager
def _noted(key: str) -> Iterator[None]:
    keys = _keys_of_this_thread()
    keys.add(key)
    try:
        yield
    finally:
        keys.discard(key)
