"""Made-up sky images in three bands: galaxies that are lenses, and others that look like it.

Everything here is a function of its arguments: no global random generator is read or changed.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hasten.gallery.lensing import camera, light
from hasten.gallery.lensing.lens import Array
from hasten.gallery.lensing.scenes import LOOK_ALIKES, Draw, Galaxy, lensed

BANDS = 3
"""From blue to red."""
CLASSES = 2
"""0: a look-alike; 1: a lens."""

TRAINING_SEED = 40_240
EVALUATION_SEED = 40_241
"""Of the images only: a run's own seed changes the training, never the data."""

_SOFTENING = 5.0
"""Counts up to which the stretch is linear, about the noise; above it is a logarithm."""
_OLD, _YOUNG = (0.35, 0.75, 1.0), (1.0, 0.8, 0.65)
"""The light of stars in each band: old ones are red, young ones blue."""
_ROWS_AT_A_TIME = 64
"""Of one generator. Few, so that what is computed on the way stays near a core's cache."""


def make_images(rows: int, pixels: int, seed: int) -> tuple[Tensor, Tensor]:
    """Stretched images (rows, 3, pixels, pixels) and their classes (rows,)."""
    images = np.empty((rows, BANDS, pixels, pixels), np.float32)
    labels = np.empty(rows, np.int64)

    def fill(piece: slice) -> None:
        counts, labels[piece] = draw_counts(piece, pixels, seed)
        images[piece] = stretch(counts)

    in_pieces(rows, fill)
    return torch.from_numpy(images), torch.from_numpy(labels)


def in_pieces(rows: int, work: Callable[[slice], None]) -> None:
    """Call ``work`` with some rows at a time, in threads: NumPy and zlib let others go on."""
    starts = range(0, rows, _ROWS_AT_A_TIME)
    pieces = [slice(start, min(start + _ROWS_AT_A_TIME, rows)) for start in starts]
    with ThreadPoolExecutor(torch.get_num_threads()) as threads:
        for _ in threads.map(work, pieces):
            pass  # raises what was raised there


def stretch(counts: Array) -> Array:
    """What a network is shown: faint light as it is, bright light as its logarithm."""
    stretched: Array = np.arcsinh(counts / np.float32(_SOFTENING))
    return stretched


def draw_counts(piece: slice, pixels: int, seed: int) -> tuple[Array, NDArray[np.int64]]:
    """What a camera counts in the rows of a piece, (rows, 3, pixels, pixels), and their classes.

    A piece has a random generator of its own, so that it can be drawn before the one before it.
    """
    rng = np.random.default_rng([seed, piece.start])
    classes = rng.integers(0, CLASSES, piece.stop - piece.start)
    return _draw_piece(rng, classes, pixels), classes


def _draw_piece(rng: np.random.Generator, classes: NDArray[np.int64], pixels: int) -> Array:
    draw = Draw(rng, len(classes))
    galaxy = _draw_galaxy(draw, pixels)
    front = light.galaxy(
        galaxy.x,
        galaxy.y,
        radius=draw.between(0.3, 0.8),
        index=draw.between(3, 4.5),
        axis_ratio=galaxy.axis_ratio,
        angle=galaxy.angle,
    )
    around = _draw_around(rng, classes, galaxy)
    seeing = draw.between(0.12, 0.25)
    counts = _coloured(draw, camera.blur(front, seeing), draw.between(0.95, 1))
    counts *= draw.between(2000, 8000)[..., None]
    # What lies behind is seen as it was when its stars were young; what lies beside is like it.
    oldest = np.where(classes == 1, 0.4, 1).astype(np.float32)[:, None, None]
    second = _coloured(draw, camera.blur(around, seeing), oldest * draw.between(0, 1))
    # As much light around lenses as around the others: brightness alone tells nothing.
    counts += second * draw.between(1200, 4000)[..., None]
    return camera.expose(rng, counts)


def _draw_galaxy(draw: Draw, pixels: int) -> Galaxy:
    """In the middle, or nearly so: it is what the image was cut out for."""
    x, y = camera.places(pixels)
    x, y = np.broadcast_arrays(x - draw.between(-0.3, 0.3), y - draw.between(-0.3, 0.3))
    return Galaxy(x=x, y=y, axis_ratio=draw.between(0.55, 0.95), angle=draw.angle())


def _draw_around(rng: np.random.Generator, classes: NDArray[np.int64], galaxy: Galaxy) -> Array:
    around = np.empty(galaxy.x.shape, np.float32)
    kinds = np.where(classes == 1, 0, rng.integers(1, 1 + len(LOOK_ALIKES), len(classes)))
    for kind, scene in enumerate((lensed, *LOOK_ALIKES)):
        chosen = kinds == kind
        around[chosen] = scene(Draw(rng, int(chosen.sum())), galaxy.rows(chosen))
    return around


def _coloured(draw: Draw, shape: Array, age: Array) -> Array:
    """The shares of its light that fall on each pixel, in three bands by how old its stars are."""
    shares = [young + age * (old - young) for young, old in zip(_YOUNG, _OLD, strict=True)]
    bands = np.stack([share * draw.between(0.9, 1.1) for share in shares], axis=1)
    coloured: Array = bands * (shape / shape.sum(axis=(1, 2), keepdims=True))[:, None]
    return coloured
