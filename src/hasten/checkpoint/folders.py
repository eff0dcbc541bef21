"""The folders of single checkpoints: their names, their manifests, the state of their files."""

import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import msgspec
from torch import Tensor

from hasten.checkpoint.files import PARTIAL, hash_file, open_plain, sync_folder
from hasten.checkpoint.tensor_file import read_tensors
from hasten.errors import HastenError
from hasten.records.checkpoint import CHECKPOINT_FORMAT, MODEL, Manifest, StoredFile
from hasten.records.record import Record, digest_of, from_builtins

MANIFEST = "manifest.json"
TENSORS = "state.safetensors"
STATE = "state.json"
FILES = (MODEL, TENSORS, STATE)
NEW = ".new"
"""Ends the name of a checkpoint that is to replace one of the same step."""
LARGEST_MANIFEST_BYTES = 64_000_000
MOST_SCANS = 100
"""A reader looks again when a writer moved something away under it."""

_NAME = re.compile(r"step-([0-9]{8,18})(\.new)?")


class OtherFormatError(HastenError):
    """A manifest that another version wrote: not broken, and not ours to remove."""


class State(Record, frozen=True, kw_only=True):
    """``state.json``."""

    manifest_sha256: str
    """Of the manifest without its files; the manifest in turn has the hash of this file. So a
    change in either is seen."""
    tree: Any


@dataclass(frozen=True)
class Saved:
    """A checkpoint as it was read."""

    manifest: Manifest
    model: dict[str, Tensor]
    skeleton: Any
    tensors: dict[str, Tensor]
    path: Path
    complaints: tuple[str, ...]
    """What was wrong with newer ones."""


@dataclass(frozen=True, order=True)
class Folder:
    """One that has the name of a checkpoint; it may be partial."""

    step: int
    is_new: bool
    path: Path
    inode: int
    """Tells it from another of the same name that took its place."""

    @classmethod
    def at(cls, path: Path) -> Self | None:
        """None where the name is not that of a checkpoint."""
        match = _NAME.fullmatch(path.name)
        if match is None or name_of(int(match[1])) != path.name.removesuffix(NEW):
            return None
        return cls(int(match[1]), match[2] is not None, path, path.lstat().st_ino)

    @property
    def has_manifest(self) -> bool:
        return os.path.lexists(self.path / MANIFEST)

    @property
    def is_in_place(self) -> bool:
        """Still whole and the same: a writer has neither replaced it nor begun to remove it."""
        try:
            return self.path.lstat().st_ino == self.inode and self.has_manifest
        except FileNotFoundError:
            return False


def name_of(step: int) -> str:
    return f"step-{step:08d}"


def find_folders(parent: Path) -> list[Folder]:
    """Newest last; links and whatever has another name are not ours. None where there is no
    such place."""
    try:
        for _ in range(MOST_SCANS):
            try:
                return _scan(parent)
            except FileNotFoundError:  # the place itself, or a folder that was just moved away
                if not parent.exists():
                    return []
    except OSError as error:
        raise HastenError(
            f"The checkpoints in {parent} cannot be listed: {error.strerror}.",
            fix="Give the folder that checkpoints are written to.",
        ) from error
    raise HastenError(f"The checkpoints in {parent} changed at every look.", fix="Look again.")


def _scan(parent: Path) -> list[Folder]:
    with os.scandir(parent) as entries:
        names = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
    found = [Folder.at(parent / name) for name in names]
    return sorted(each for each in found if each is not None)


def read_manifest(folder: Folder) -> Manifest:
    """Data from anywhere. ``FileNotFoundError`` where there is none: the folder is partial."""
    path = folder.path / MANIFEST
    try:
        with open_plain(path) as file:
            content = file.read(LARGEST_MANIFEST_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise HastenError(f"{path} cannot be read: {error.strerror}.") from error
    if len(content) > LARGEST_MANIFEST_BYTES:
        raise HastenError(
            f"{path} has more than {LARGEST_MANIFEST_BYTES:,} bytes, which no manifest has."
        )
    manifest = _parse(content, path)
    if manifest.position.step != folder.step:
        raise HastenError(f"{path} is of step {manifest.position.step}, not {folder.step}.")
    return manifest


def _parse(content: bytes, path: Path) -> Manifest:
    try:
        raw = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HastenError(f"{path} is not JSON: {error}.") from error
    if isinstance(raw, dict) and raw.get("format", CHECKPOINT_FORMAT) != CHECKPOINT_FORMAT:
        # Asked before the keys are: another format has other ones.
        raise OtherFormatError(
            f"{path}: format {raw['format']!a:.80} is not known; this Hasten reads"
            f" {CHECKPOINT_FORMAT}.",
            fix="Use the Hasten that wrote it.",
        )
    return from_builtins(raw, Manifest, where=str(path))


def find_damage(path: Path, manifest: Manifest) -> list[str]:
    """What of the files is not as it was written; each is read and hashed."""
    if sorted(each.name for each in manifest.files) != sorted(FILES):
        return [f"{path / MANIFEST} does not list {', '.join(FILES)}, each once"]
    return [problem for each in manifest.files if (problem := _damage_of(path / each.name, each))]


def _damage_of(path: Path, stored: StoredFile) -> str | None:
    try:
        with open_plain(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size < stored.bytes:
                return f"{path} is truncated: {size:,} of {stored.bytes:,} bytes"
            if size > stored.bytes:
                return f"{path} has grown: {size:,} bytes instead of {stored.bytes:,}"
            found = hash_file(file)
    except FileNotFoundError:
        return f"{path} is missing"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    if found == stored.sha256:
        return None
    return f"{path} has changed: its sha256 is {found}, not {stored.sha256!a:.80}"


def load(folder: Folder) -> Saved:
    """``HastenError`` says what is wrong; ``FileNotFoundError``: partial, or being removed."""
    manifest = read_manifest(folder)
    path = folder.path
    damage = find_damage(path, manifest)
    if damage:
        raise HastenError("; ".join(damage) + ".")
    state = _read_state(path / STATE)
    if state.manifest_sha256 != digest_without_files(manifest):
        raise HastenError(f"{path / MANIFEST} has changed since it was written.")
    saved = Saved(
        manifest=manifest,
        model=read_tensors(path / MODEL),
        skeleton=state.tree,
        tensors=read_tensors(path / TENSORS),
        path=path,
        complaints=(),
    )
    if not folder.is_in_place:  # then its files may be of two checkpoints
        raise FileNotFoundError(errno.ENOENT, "Replaced while it was read", str(path))
    return saved


def _read_state(path: Path) -> State:
    with open_plain(path) as file:
        content = file.read()
    try:
        return msgspec.json.decode(content, type=State)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HastenError(f"{path} is not the state of a training: {error}.") from error


def digest_without_files(manifest: Manifest) -> str:
    return digest_of(msgspec.structs.replace(manifest, files=()))


def remove(folder: Path) -> None:
    """The manifest first, so that what a kill leaves is a partial one. Files that are not of a
    checkpoint stay, and their folder with them."""
    for name in (MANIFEST, MANIFEST + PARTIAL):
        (folder / name).unlink(missing_ok=True)
    sync_folder(folder)
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
