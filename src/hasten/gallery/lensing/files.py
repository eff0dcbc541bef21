"""The images as files: a folder of the user's cache, written once.

``000000.fits.gz`` and so on are what a camera counted, not stretched; ``catalogue.csv`` says which
of them are lenses, as a challenge for lens finders does.
"""

import csv
import hashlib
import inspect
import json
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from hasten.errors import HastenError
from hasten.gallery.lensing import camera, data, fits, lens, light, scenes
from hasten.host.files import file_clock_s
from hasten.host.folders import cache_root

CATALOGUE = "catalogue.csv"
_MADE_BY: tuple[ModuleType, ...] = (lens, light, scenes, camera, data, fits)
_ABANDONED_AFTER_S = 24 * 3600
"""A folder that was begun so long ago has no process that will finish it."""


def image_folder(rows: int, pixels: int, seed: int) -> Path:
    """The folder with these images; takes seconds the first time, nothing after that.

    Its name has a digest of what the images depend on, the code that makes them included. Many
    processes may ask at once: each makes the folder, one of them is first, all use that one's. The
    last bits are those of the processor that made them; another kind may round otherwise.
    """
    folder = cache_root() / "gallery" / "lensing" / _key(rows, pixels, seed)
    if not folder.is_dir():
        try:
            _write(folder, rows, pixels, seed)
        except OSError as error:
            size = rows * data.BANDS * pixels**2 * 4 // 2**20 + 1
            raise HastenError(
                f"The {rows} images of gallery:lensing, {size} MiB at most, cannot be written to "
                f"{folder}: {error.strerror or error}.",
                fix="Make room there, or set XDG_CACHE_HOME to a folder that can be written to.",
            ) from error
    return folder


def file_name(number: int) -> str:
    return f"{number:06}.fits.gz"


def read_catalogue(folder: Path) -> list[tuple[str, int]]:
    """The name of each image's file, and its class."""
    with (folder / CATALOGUE).open(newline="") as file:
        return [(row["file"], int(row["is_lens"])) for row in csv.DictReader(file)]


class ImageFiles(Dataset[tuple[Tensor, Tensor]]):
    """Stretched images and their classes; a file is read and decoded whenever it is asked for."""

    def __init__(self, folder: Path) -> None:
        files, labels = zip(*read_catalogue(folder), strict=True)
        self._files = [folder / name for name in files]
        self._labels = torch.tensor(labels)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        counts = fits.read_fits(self._files[number])
        return torch.from_numpy(data.stretch(counts)), self._labels[number]


def _key(rows: int, pixels: int, seed: int) -> str:
    code = [inspect.getsource(module) for module in _MADE_BY]
    made_of = json.dumps([rows, pixels, seed, np.__version__, code])
    digest = hashlib.blake2b(made_of.encode(), digest_size=8).hexdigest()
    return f"{rows}x{pixels}-{digest}"


def _write(folder: Path, rows: int, pixels: int, seed: int) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(folder.parent)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        _fill(temporary, rows, pixels, seed)
        # One flush for thousands of files: none may be empty after a power cut.
        os.sync()
        temporary.chmod(0o755)
        temporary.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise  # else another process was first, and its images are the same
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _fill(folder: Path, rows: int, pixels: int, seed: int) -> None:
    labels = np.empty(rows, np.int64)

    def write(piece: slice) -> None:
        counts, labels[piece] = data.draw_counts(piece, pixels, seed)
        for number, cube in enumerate(counts, piece.start):
            fits.write_fits(folder / file_name(number), cube)

    data.in_pieces(rows, write)
    with (folder / CATALOGUE).open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["file", "is_lens"])
        table.writerows((file_name(number), label) for number, label in enumerate(labels))


def _remove_abandoned(parent: Path) -> None:
    """What processes that were killed have left."""
    for each in parent.glob(".*"):
        with suppress(FileNotFoundError):  # it was finished, or another process removes it
            if file_clock_s() - each.stat().st_mtime > _ABANDONED_AFTER_S:
                shutil.rmtree(each, ignore_errors=True)
