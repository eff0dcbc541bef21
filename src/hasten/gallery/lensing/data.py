"""Made-up sky images in three bands: a blob of light, and in half of them a ring around it.

Everything here is a function of its arguments: no global random generator is read or changed.
"""

import numpy as np
import torch
from torch import Tensor

BANDS = 3
CLASSES = 2
"""0: no lens, a second blob to the side; 1: a lens, the same light drawn out to a ring."""

TRAINING_SEED = 40_240
EVALUATION_SEED = 40_241
"""Of the images only: a run's own seed changes the training, never the data."""

_NOISE = 0.3
_ROWS_AT_A_TIME = 1024
"""Bounds the memory of what is computed on the way to the images."""


def make_images(rows: int, pixels: int, seed: int) -> tuple[Tensor, Tensor]:
    """Images (rows, 3, pixels, pixels) and their classes (rows,)."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, rows)
    images = np.empty((rows, BANDS, pixels, pixels), np.float32)
    for start in range(0, rows, _ROWS_AT_A_TIME):
        piece = slice(start, start + _ROWS_AT_A_TIME)
        images[piece] = _draw_images(rng, labels[piece], pixels)
    return torch.from_numpy(images), torch.from_numpy(labels)


def _draw_images(rng: np.random.Generator, labels: np.ndarray, pixels: int) -> np.ndarray:
    rows = len(labels)
    center = rng.uniform(-0.2, 0.2, (2, rows)).astype(np.float32)
    radius, angle = rng.uniform(0.3, 0.7, rows), rng.uniform(0, 2 * np.pi, rows)
    galaxy = _glow(_distances(pixels, center), 0.15)
    ring = _glow(_distances(pixels, center) - _column(radius), 0.06)
    aside = center + (radius * np.stack([np.cos(angle), np.sin(angle)])).astype(np.float32)
    blob = _glow(_distances(pixels, aside), 0.2)
    source = np.where(_column(labels) == 1, ring, blob)
    # Lens and source are of different colours: the brightness in each band.
    galaxy_bands, source_bands = rng.uniform(0.5, 1.0, (2, rows, BANDS, 1, 1)).astype(np.float32)
    images: np.ndarray = galaxy_bands * galaxy[:, None] + source_bands * source[:, None]
    images += _NOISE * rng.standard_normal(images.shape, dtype=np.float32)
    return images


def _distances(pixels: int, center: np.ndarray) -> np.ndarray:
    """Of every pixel from each row's center, in halves of the image's side."""
    axis = np.linspace(-1, 1, pixels, dtype=np.float32)
    across = axis[None, None, :] - _column(center[0])
    down = axis[None, :, None] - _column(center[1])
    distances: np.ndarray = np.hypot(across, down)
    return distances


def _glow(distance: np.ndarray, width: float) -> np.ndarray:
    glow: np.ndarray = np.exp(-0.5 * (distance / np.float32(width)) ** 2)
    return glow


def _column(values: np.ndarray) -> np.ndarray:
    """One value for each row, to be spread over the row's pixels."""
    narrow = values.astype(np.float32) if values.dtype == np.float64 else values
    return narrow[:, None, None]
