"""The lensing workload's image files: their format, their folder, and what may go wrong with it."""

import gzip
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from hasten.errors import HastenError
from hasten.gallery.lensing.files import ImageFiles, image_folder, read_catalogue
from hasten.gallery.lensing.fits import BLOCK, CARD, read_fits, write_fits
from hasten.gallery.lensing.task import SIZES, factory, make_dataset, make_file_dataset

ROWS, PIXELS, SEED = 100, 16, 3
WRITE = """
import sys
from hasten.errors import HastenError
from hasten.gallery.lensing.files import image_folder
try:
    print(image_folder(*map(int, sys.argv[1:])))
except HastenError as error:
    print(error)
"""


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the folders of images go."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "hasten" / "gallery" / "lensing"


def writer(rows: int, pixels: int, code: str = WRITE) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, str(rows), str(pixels), str(SEED)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_cube_comes_back_to_the_bit(tmp_path: Path) -> None:
    cube = np.random.default_rng(0).standard_normal((3, 5, 7)).astype(np.float32)
    cube[0, 0, :4] = [np.nan, -0.0, np.inf, 1e-44]
    write_fits(tmp_path / "a.fits.gz", cube)
    found = read_fits(tmp_path / "a.fits.gz")
    assert found.shape == (3, 5, 7)
    assert found.dtype == np.float32
    assert found.tobytes() == cube.tobytes()


def test_a_file_is_as_the_standard_wants_it(tmp_path: Path) -> None:
    write_fits(tmp_path / "a.fits.gz", np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4))
    content = gzip.decompress((tmp_path / "a.fits.gz").read_bytes())
    assert len(content) == 2 * BLOCK
    header = content[:BLOCK].decode("ascii")
    cards = [header[place : place + CARD] for place in range(0, BLOCK, CARD)]
    wanted = ["SIMPLE", "BITPIX", "NAXIS", "NAXIS1", "NAXIS2", "NAXIS3"]
    assert [card[:8].rstrip() for card in cards[:6]] == wanted
    assert {card[8:10] for card in cards[:6]} == {"= "}
    # A value ends in column 30; the axis that varies fastest is the first.
    assert [card[10:30].strip() for card in cards[:6]] == ["T", "-32", "3", "4", "3", "2"]
    assert all(card[29] != " " for card in cards[:6])
    assert cards[6] == "END".ljust(CARD)
    assert set("".join(cards[7:])) == {" "}
    assert np.array_equal(np.frombuffer(content, ">f4", 24, BLOCK), np.arange(24))
    assert not any(content[BLOCK + 24 * 4 :])


def test_a_file_of_another_program_is_read(tmp_path: Path) -> None:
    """With comments, other cards, a header of two blocks and nothing after the values."""
    lines = ["SIMPLE  =                    T / conforms", "BITPIX  =                  -32 / float"]
    lines += ["NAXIS   =                    2", "NAXIS1  =                    3 / columns"]
    lines += ["NAXIS2  =                    1", "OBJECT  = 'J0946+1006'"]
    lines += ["COMMENT long"] * 40 + ["END"]
    header = "".join(line.ljust(CARD) for line in lines).ljust(2 * BLOCK).encode()
    values = np.array([1.5, -2, 3], ">f4").tobytes()
    (tmp_path / "a.fits.gz").write_bytes(gzip.compress(header + values))
    assert read_fits(tmp_path / "a.fits.gz").tolist() == [[1.5, -2, 3]]


def damaged(kind: str, whole: bytes) -> bytes:
    content = gzip.decompress(whole)
    return {
        "empty": b"",
        "half of it": whole[: len(whole) // 2],
        "not compressed": content,
        "without an end": gzip.compress(content[: 3 * CARD]),
        "with too few values": gzip.compress(content[: BLOCK + 100]),
        "of other numbers": gzip.compress(content.replace(b" -32", b"  16")),
        "no FITS": gzip.compress(b"\xff\xfe" * BLOCK),
    }[kind]


@pytest.mark.parametrize(
    "kind",
    [
        "empty",
        "half of it",
        "not compressed",
        "without an end",
        "with too few values",
        "of other numbers",
        "no FITS",
    ],
)
def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "a.fits.gz"
    write_fits(file, np.ones((3, 20, 20), np.float32))
    file.write_bytes(damaged(kind, file.read_bytes()))
    with pytest.raises(HastenError) as raised:
        read_fits(file)
    assert str(file) in raised.value.what
    assert str(tmp_path) in raised.value.fix


def test_files_and_tensors_are_the_same_items_to_the_bit() -> None:
    tensors, files = make_dataset(ROWS, PIXELS, SEED), make_file_dataset(ROWS, PIXELS, SEED)
    assert len(files) == ROWS  # type: ignore[arg-type]
    for number in range(ROWS):
        for one, other in zip(tensors[number], files[number], strict=True):
            assert one.dtype == other.dtype
            assert torch.equal(one, other)


@pytest.mark.parametrize("workers", [0, 2])
def test_files_and_tensors_are_the_same_batches(workers: int) -> None:
    both = []
    for make, processes in ((make_dataset, 0), (make_file_dataset, workers)):
        torch.manual_seed(1)
        dataset = make(ROWS, PIXELS, SEED)
        both.append(list(DataLoader(dataset, batch_size=32, shuffle=True, num_workers=processes)))
    for one, other in zip(*both, strict=True):
        assert torch.equal(one[0], other[0])
        assert torch.equal(one[1], other[1])


def test_a_size_with_files_is_the_same_task_but_for_them() -> None:
    for size in ("small", "full"):
        shapes = [SIZES[name] for name in (size, f"{size}-files")]
        assert [shape.files for shape in shapes] == [False, True]
        assert len({str(shape).partition(", files=")[0] for shape in shapes}) == 1


def test_the_small_task_decodes_its_files() -> None:
    task = factory("small-files")()
    assert isinstance(task.data, ImageFiles)
    image, label = task.data[700]
    assert image.shape == (3, 48, 48)
    assert label.dtype == torch.int64


def test_a_folder_is_written_once(folders: Path) -> None:
    folder = image_folder(ROWS, PIXELS, SEED)
    before = folder.stat().st_mtime_ns, (folder / "000000.fits.gz").stat().st_ino
    assert image_folder(ROWS, PIXELS, SEED) == folder
    assert (folder.stat().st_mtime_ns, (folder / "000000.fits.gz").stat().st_ino) == before
    assert list(folders.iterdir()) == [folder]
    assert len(list(folder.iterdir())) == ROWS + 1


def test_other_images_have_another_folder() -> None:
    asked = [(8, 16, 1), (9, 16, 1), (8, 24, 1), (8, 16, 2)]
    assert len({image_folder(*each) for each in asked}) == len(asked)


def test_the_catalogue_names_files_that_are_there() -> None:
    folder = image_folder(ROWS, PIXELS, SEED)
    catalogue = read_catalogue(folder)
    assert {name for name, _ in catalogue} == {file.name for file in folder.glob("*.fits.gz")}
    assert {label for _, label in catalogue} == {0, 1}


def test_many_processes_at_once_get_one_whole_folder(folders: Path) -> None:
    processes = [writer(ROWS, PIXELS) for _ in range(4)]
    answers = {process.communicate(timeout=120)[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0] * 4
    (folder,) = answers
    assert list(folders.iterdir()) == [Path(folder)]
    expected = make_dataset(ROWS, PIXELS, SEED)
    assert torch.equal(ImageFiles(Path(folder))[99][0], expected[99][0])


def test_a_writer_that_is_killed_leaves_no_folder_and_what_it_left_is_removed_later(
    folders: Path,
) -> None:
    process = writer(20_000, 32)
    limit = time.monotonic() + 60
    while not list(folders.glob(".*/0*.fits.gz")):
        assert process.poll() is None
        assert time.monotonic() < limit
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (left,) = folders.iterdir()
    assert left.name.startswith(".")
    folder = image_folder(ROWS, PIXELS, SEED)
    assert set(folders.iterdir()) == {folder, left}  # it may still be at work, for all we know
    os.utime(left, (0, 0))
    other = image_folder(ROWS, PIXELS, SEED + 1)
    assert set(folders.iterdir()) == {folder, other}


def test_a_folder_that_cannot_be_made_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(HastenError) as raised:
        image_folder(ROWS, PIXELS, SEED)
    assert str(tmp_path / "file" / "hasten") in raised.value.what
    assert "Not a directory" in raised.value.what
    assert "XDG_CACHE_HOME" in raised.value.fix


def test_a_disk_that_is_full_is_said_and_nothing_is_left(folders: Path) -> None:
    """As good as full: no file may be larger than 1,000 bytes."""
    limited = f"import resource; resource.setrlimit({resource.RLIMIT_FSIZE}, (1000, 1000))\n{WRITE}"
    process = writer(ROWS, PIXELS, limited)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "1 MiB" in said
    assert "File too large" in said
    assert list(folders.iterdir()) == []
