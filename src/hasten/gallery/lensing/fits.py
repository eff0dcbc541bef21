"""Image cubes in gzip-compressed FITS files, as observatories hand them out: one array to a file.

Of the FITS standard only what such a file needs: one header of 80-character cards, big-endian
32-bit floats after it, both filled up to whole blocks of 2880 bytes. No extensions, no scaling.
"""

import gzip
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hasten.errors import HastenError

BLOCK = 2880
CARD = 80
_LEVEL = 1
"""Of compression: noise does not become smaller by trying harder."""


def write_fits(path: Path, cube: NDArray[np.float32]) -> None:
    """``cube`` is (bands, rows, columns)."""
    axes = [(f"NAXIS{place}", length) for place, length in enumerate(reversed(cube.shape), 1)]
    cards = [("BITPIX", -32), ("NAXIS", cube.ndim), *axes]
    header = _card("SIMPLE", "T") + b"".join(_card(name, value) for name, value in cards)
    header += b"END".ljust(CARD)
    values = cube.astype(">f4").tobytes()
    content = header.ljust(_whole(len(header))) + values.ljust(_whole(len(values)), b"\0")
    # Without the time, so that equal images are equal files.
    path.write_bytes(gzip.compress(content, compresslevel=_LEVEL, mtime=0))


def read_fits(path: Path) -> NDArray[np.float32]:
    """The array of a file, all of it read and decompressed."""
    try:
        content = gzip.decompress(path.read_bytes())
        cards, start = _read_header(content)
        shape = [cards[f"NAXIS{place}"] for place in range(cards["NAXIS"], 0, -1)]
        if cards["BITPIX"] != -32:
            raise ValueError(f"BITPIX is {cards['BITPIX']}, not -32")
        values = np.frombuffer(content, ">f4", int(np.prod(shape)), start)
    except (
        FileNotFoundError,
        gzip.BadGzipFile,
        EOFError,
        zlib.error,
        KeyError,
        ValueError,
    ) as error:
        raise HastenError(
            f"{path} is no image that can be read: {type(error).__name__}: {error}.",
            fix=f"Remove the folder {path.parent}; it is made again when it is needed.",
        ) from error
    return values.astype(np.float32).reshape(shape)


def _card(name: str, value: int | str) -> bytes:
    return f"{name:<8}= {value:>20}".ljust(CARD).encode("ascii")


def _read_header(content: bytes) -> tuple[dict[str, int], int]:
    """The whole numbers among its cards, and where the values begin."""
    cards: dict[str, int] = {}
    for place in range(0, len(content), CARD):
        card = content[place : place + CARD].decode("ascii")
        if card.rstrip() == "END":
            return cards, _whole(place + CARD)
        name, _, value = card.partition("=")
        value = value.partition("/")[0].strip()
        if value.lstrip("-").isdigit():
            cards[name.rstrip()] = int(value)
    raise ValueError("its header has no end")


def _whole(size: int) -> int:
    """Bytes of the blocks that hold so many."""
    return -(-size // BLOCK) * BLOCK
