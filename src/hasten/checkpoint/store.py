"""A folder of checkpoints: one writer, any number of readers.

``DIR/step-00000050/`` holds ``model.safetensors``, ``state.safetensors``, ``state.json`` and last
of all ``manifest.json``, which makes it whole. ``DIR/latest`` names the newest, as a hint for
people. A kill at any moment leaves the one before as it was; what it left half done is ignored by
readers and removed by the next writer.
"""

import dataclasses
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from torch import Tensor

from hasten.checkpoint.files import PARTIAL, open_plain, replace_file, sync_folder, write_file
from hasten.checkpoint.folders import (
    FILES,
    LARGEST_MANIFEST_BYTES,
    MANIFEST,
    MOST_SCANS,
    NEW,
    STATE,
    TENSORS,
    Folder,
    Saved,
    State,
    digest_without_files,
    find_folders,
    load,
    name_of,
    read_manifest,
    remove,
)
from hasten.checkpoint.lock import FolderLock
from hasten.checkpoint.rotation import find_surplus
from hasten.checkpoint.tensor_file import make_header, write_tensors
from hasten.errors import HastenError
from hasten.records.checkpoint import MODEL, Manifest, StoredFile
from hasten.records.record import to_json

LATEST = "latest"
LOCK = ".lock"
UNWRITABLE = "is not a place to write checkpoints to"
FEWEST_KEPT = 2
"""One could be broken by the disk while the next is being written."""


@dataclass(frozen=True)
class Content:
    """What is to be written; the tensors on the host, not changed until it is."""

    manifest: Manifest
    """Its files still empty."""
    model: dict[str, Tensor]
    skeleton: Any
    tensors: dict[str, Tensor]


class Store:
    """``steps`` and ``read`` take no lock and need no ``open``; they change nothing."""

    def __init__(self, folder: Path, keep: int = FEWEST_KEPT) -> None:
        if keep < FEWEST_KEPT:
            raise HastenError(
                f"keep={keep} is less than {FEWEST_KEPT}, and one checkpoint alone may break.",
                fix=f"Keep {FEWEST_KEPT} or more.",
            )
        self.folder = folder
        self._keep = keep
        self._lock: FolderLock | None = None

    def open(self) -> Self:
        """Takes the lock, removes what dead writers left half done, mends ``latest``."""
        with self._telling(UNWRITABLE):
            self.folder.mkdir(parents=True, exist_ok=True)
            sync_folder(self.folder.parent)
            self.hold()
            try:
                self._tidy()
                self._point()
            except BaseException:
                self.close()
                raise
        return self

    def hold(self) -> None:
        """Takes the lock of a folder that is there, and leaves all else as it is."""
        if self._lock is None:
            with self._telling(UNWRITABLE):
                self._lock = FolderLock(self.folder / LOCK)

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def steps(self) -> list[int]:
        """Of the complete checkpoints, newest last."""
        return sorted({each.step for each in find_folders(self.folder) if _is_complete(each)})

    def write(self, content: Content) -> Path:
        """Where it lies now. A failure leaves the checkpoints before it as they were."""
        if self._lock is None:
            raise HastenError(f"The store {self.folder} is not open.", fix="Call open() first.")
        final = self.folder / name_of(content.manifest.position.step)
        path = final
        if os.path.lexists(final / MANIFEST):
            _refuse_foreign_files(final)
            path = final.with_name(final.name + NEW)
        self._write_whole(path, content)
        with self._telling(f"holds the new checkpoint {path.name}, but could not be put in order"):
            path = _settle(path)
            self._point()
            self._rotate(path)
        return path

    def read(self, step: int | None = None) -> Saved:
        """The newest that is whole and healthy, or that of a step, healthy or not. What was wrong
        with newer ones is told in its complaints."""
        for _ in range(MOST_SCANS):
            folders = find_folders(self.folder)
            saved, complaints, is_settled = self._read_newest(folders, step)
            if not is_settled and find_folders(self.folder) != folders:
                continue
            if saved is None:
                raise self._nothing_to_read(step, complaints)
            return dataclasses.replace(saved, complaints=tuple(complaints))
        raise HastenError(
            f"The checkpoints in {self.folder} changed at every look.", fix="Read them again."
        )

    def _read_newest(
        self, folders: list[Folder], step: int | None
    ) -> tuple[Saved | None, list[str], bool]:
        """Also whether every folder was whole or broken, and none partial or on its way out."""
        complaints: list[str] = []
        is_settled = True
        for folder in reversed(folders):
            if step is not None and folder.step != step:
                continue
            try:
                saved = load(folder)
                if saved.manifest.healthy or step is not None:
                    return saved, complaints, is_settled
                complaints.append(f"{folder.path} has weights that are not finite.")
            except FileNotFoundError:
                is_settled = False
            except HastenError as error:
                if folder.is_in_place:
                    complaints.append(error.what)
                else:
                    is_settled = False
        return None, complaints, is_settled

    def _nothing_to_read(self, step: int | None, complaints: list[str]) -> HastenError:
        if complaints:
            told = " ".join(complaints)
            return HastenError(
                f"No checkpoint in {self.folder} can be read. {told}",
                fix="Give a copy of a checkpoint that is whole, or begin anew in another folder.",
            )
        if not self.folder.exists():
            return HastenError(
                f"There is no folder {self.folder}.",
                fix="Give the folder that checkpoints are written to.",
            )
        steps = ", ".join(map(str, self.steps()))
        if step is not None and steps:
            return HastenError(
                f"{self.folder} has no checkpoint of step {step}.", fix=f"It has {steps}."
            )
        return HastenError(
            f"{self.folder} holds no complete checkpoint.",
            fix="Give the folder that checkpoints are written to.",
        )

    def _write_whole(self, path: Path, content: Content) -> None:
        """The files, the folder's names, then the manifest; nothing stays of a failure."""
        state = msgspec.json.encode(
            State(
                manifest_sha256=digest_without_files(content.manifest),
                tree=content.skeleton,
            )
        )
        needed = len(state) + _size_of(content.model) + _size_of(content.tensors)
        try:
            _make_folder(path)
            files = (
                write_tensors(path / MODEL, content.model),
                write_tensors(path / TENSORS, content.tensors),
                write_file(path / STATE, [state]),
            )
            sync_folder(path)
            replace_file(path / MANIFEST, _manifest_text(content.manifest, files))
        except OSError as error:
            left = _remove_remains(path)
            raise _write_failure(path, error, needed, left) from error
        except BaseException:
            _remove_remains(path)
            raise

    def _tidy(self) -> None:
        """Under the lock, so whatever is partial has no writer any more."""
        (self.folder / (LATEST + PARTIAL)).unlink(missing_ok=True)
        for folder in find_folders(self.folder):
            if not folder.has_manifest:
                remove(folder.path)
            elif _is_complete(folder):
                _settle(folder.path)

    def _point(self) -> None:
        latest = self.folder / LATEST
        newest = next((each for each in self._newest_first() if _is_complete(each)), None)
        if newest is None:
            latest.unlink(missing_ok=True)
        elif _read_hint(latest) != newest.path.name:
            replace_file(latest, f"{newest.path.name}\n".encode())

    def _rotate(self, written: Path) -> None:
        for path in find_surplus(self._newest_first(), self._keep, written):
            remove(path)
        for folder in find_folders(self.folder):
            if not folder.has_manifest:
                remove(folder.path)
        sync_folder(self.folder)

    def _newest_first(self) -> list[Folder]:
        return find_folders(self.folder)[::-1]

    @contextmanager
    def _telling(self, problem: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise HastenError(
                f"{self.folder} {problem}: {_reason(error)}.",
                fix="Choose a folder that you may write to.",
            ) from error


def _is_complete(folder: Folder) -> bool:
    try:
        read_manifest(folder)
    except (FileNotFoundError, HastenError):
        return False
    return True


def _make_folder(path: Path) -> None:
    if path.is_symlink():
        raise FileExistsError(errno.EEXIST, "A link has this name", str(path))
    if path.is_dir():
        remove(path)  # what an interrupted write left
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def _refuse_foreign_files(path: Path) -> None:
    """They would stay, and with them the name that the new checkpoint is to have."""
    foreign = sorted({each.name for each in path.iterdir()} - {*FILES, MANIFEST})
    if foreign:
        raise HastenError(
            f"The checkpoint {path} is to be replaced, and holds {foreign[0]!a}, which is not of"
            " a checkpoint.",
            fix="Move it elsewhere.",
        )


def _settle(path: Path) -> Path:
    """Give a replacement the name of what it replaces. Until then both are there, and readers
    take the replacement."""
    if not path.name.endswith(NEW):
        return path
    final = path.with_name(path.name.removesuffix(NEW))
    if final.is_dir():
        remove(final)
    path.rename(final)
    sync_folder(final.parent)
    return final


def _manifest_text(manifest: Manifest, files: tuple[StoredFile, ...]) -> bytes:
    text = to_json(msgspec.structs.replace(manifest, files=files))
    if len(text) > LARGEST_MANIFEST_BYTES:
        raise HastenError(
            f"The manifest of this checkpoint has {len(text):,} bytes, more than the"
            f" {LARGEST_MANIFEST_BYTES:,} that are read.",
            fix="Keep fewer weights, or shorter names.",
        )
    return text


def _size_of(tensors: dict[str, Tensor]) -> int:
    return len(make_header(tensors)) + sum(each.nbytes for each in tensors.values())


def _remove_remains(path: Path) -> str:
    """In words what could not be removed; the next writer removes it."""
    try:
        if path.is_dir() and not path.is_symlink():
            remove(path)
    except OSError as error:
        return f" Its remains could not be removed: {_reason(error)}."
    return ""


def _write_failure(path: Path, error: OSError, needed: int, left: str) -> HastenError:
    what = f"The checkpoint {path} of {needed:,} bytes was not written: {_reason(error)}."
    fix = "Mend that, or choose another folder; older checkpoints are as they were."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        space = os.statvfs(path.parent)
        free = space.f_bavail * space.f_frsize
        what += f" {free:,} bytes are free there, and room for {space.f_favail:,} files."
        fix = "Make room, or choose another folder; older checkpoints are as they were."
    elif error.errno == errno.EXDEV:
        what += " The folder lies across devices, where a file cannot be renamed at once."
        fix = "Choose a folder on one filesystem; older checkpoints are as they were."
    return HastenError(what + left, fix=fix)


def _reason(error: OSError) -> str:
    return f"{error.strerror or error} ({error.filename})" if error.filename else str(error)


def _read_hint(path: Path) -> str | None:
    try:
        with open_plain(path) as file:
            return file.read(200).decode("ascii", "replace").removesuffix("\n")
    except OSError:  # not there, or not a file: it is written anew
        return None
