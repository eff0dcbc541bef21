"""The cache: look up, or build once and keep."""

import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hasten.data.cache import evict
from hasten.data.cache.entry import BadEntryError, OpenEntry
from hasten.data.cache.folder import FILES, CacheFolder
from hasten.data.cache.keeping import NotKeptError, keep_result, refuse_unsteady
from hasten.data.cache.keys.files import FileDigests
from hasten.data.cache.keys.key import Key, arguments_by_name, make_key
from hasten.data.cache.parts import Parts, Progress
from hasten.data.cache.parts import join as join_parts
from hasten.data.cache.randomness import GlobalGenerators
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
        """The size that the folder may have."""
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
            results = work.build(1 if reason else workers, progress)
            drawn |= work.drawn
            return join_parts(results) if join and results else results

        # Names that no parameter has, so that this is not the key of a plain call.
        arguments = {"each part": work.parts, "further arguments": args, "joined": join}
        return self.look_up(function, arguments, build)

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
        try:
            refuse_unsteady(key, {*generators.drawn_from(), *elsewhere})
            return keep_result(folder, key, result, self.limit_bytes) if keep else result
        except NotKeptError as reason:
            self._warn(reason.about, str(reason))
            return result

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
