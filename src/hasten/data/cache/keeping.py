"""Writing a result down, or saying why it is not kept."""

import os
from pathlib import Path
from typing import Any

from hasten.data.cache import evict
from hasten.data.cache.entry import OpenEntry
from hasten.data.cache.folder import CacheFolder, size_of
from hasten.data.cache.keys.files import signature_of
from hasten.data.cache.keys.key import Key
from hasten.data.cache.tree import TakenApart
from hasten.data.cache.writing import write_entry


class NotKeptError(Exception):
    """In words for the user, who has the result all the same. ``about`` is what it is told once
    for."""

    def __init__(self, about: str, words: str) -> None:
        super().__init__(words)
        self.about = about


def refuse_unsteady(key: Key, drawn: set[str]) -> None:
    """``drawn`` names the global random generators that the builder drew from."""
    if drawn:
        raise NotKeptError(
            f"random {key.builder}",
            f"{key.builder} drew from the global random generator of {', '.join(sorted(drawn))}: "
            "its result is another each time and is not kept. Give it a seed as an argument, and a "
            "generator made of that.",
        )
    for path, known in key.files.items():
        if _signature(path) != known.signature:
            raise NotKeptError(
                f"changed {path}",
                f"{path} changed while {key.builder} was built: the result is not kept.",
            )


def keep_result(folder: CacheFolder, key: Key, result: Any, limit_bytes: int) -> Any:
    """The result as every later call will get it."""
    taken = TakenApart(result)
    size = sum(array.nbytes for array in taken.arrays)
    _refuse_large(size, key, limit_bytes)
    try:
        return _write(folder, key, taken, limit_bytes)
    except OSError as error:
        raise NotKeptError(
            "disk",
            f"The result of {key.builder} ({size:,} bytes) could not be kept in {folder.root}: "
            f"{error.strerror or error}. Make room there, or name another folder: "
            "DatasetCache(folder=...).",
        ) from error


def _write(folder: CacheFolder, key: Key, taken: TakenApart, limit_bytes: int) -> Any:
    with folder.new(key.digest) as new:
        manifest = write_entry(new, key.digest, key.builder, taken)
        size = size_of(new)
        _refuse_large(size, key, limit_bytes)
        with OpenEntry(new) as entry:
            kept = entry.result(manifest)  # before anyone can remove it
        with folder.lock_to_change():
            folder.remove(folder.path(key.digest))  # a damaged one: there was no good one
            folder.sweep()
            evict.make_room(folder, size, limit_bytes)
            os.rename(new, folder.path(key.digest))  # noqa: PTH104 - a folder
    return kept


def _refuse_large(size: int, key: Key, limit_bytes: int) -> None:
    if size > limit_bytes:
        raise NotKeptError(
            f"large {key.builder}",
            f"The result of {key.builder} has {size:,} bytes, more than the limit of the whole "
            f"cache ({limit_bytes:,} bytes): it is not kept. Raise the limit.",
        )


def _signature(path: Path) -> object:
    try:
        return signature_of(path.stat())
    except OSError:
        return None
