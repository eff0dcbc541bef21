"""From light on the sky to counts in a detector: blur of the air and the optics, and noise."""

import numpy as np

from hasten.gallery.lensing.lens import Array

FIELD = 8.0
"""Arcseconds of an image's side, however many pixels it has."""
SKY = 200.0
"""Counts of the sky in a square arcsecond. It is taken off again; its noise stays."""


def places(pixels: int) -> tuple[Array, Array]:
    """Of the pixels' centres from the middle of the field: x (1, 1, pixels), y (1, pixels, 1)."""
    axis = (((np.arange(pixels) + 0.5) / pixels - 0.5) * FIELD).astype(np.float32)
    return axis[None, None, :], axis[None, :, None]


def blur(light: Array, width: Array) -> Array:
    """By a Gaussian of ``width`` arcseconds for each row; light beyond the edges is lost.

    Added up by hand, one shift after the other: the bits depend on no library's threads.
    """
    pixels = light.shape[-1]
    reach = int(np.ceil(3 * width.max() * pixels / FIELD))
    shifts = np.arange(-reach, reach + 1, dtype=np.float32)[:, None, None, None] * (FIELD / pixels)
    weights = np.exp(-0.5 * (shifts / width).astype(np.float32) ** 2)
    weights /= weights.sum(axis=0)
    for axis in (1, 2):
        around = [(reach, reach) if each == axis else (0, 0) for each in range(3)]
        padded = np.pad(light, around)
        light = np.zeros_like(light)
        for shift, weight in enumerate(weights):
            here = slice(shift, shift + pixels)
            light += weight * (padded[:, here] if axis == 1 else padded[:, :, here])
    return light


def expose(rng: np.random.Generator, counts: Array) -> Array:
    """Add the noise of counting the photons of sky and light, taken as normal."""
    sky = np.float32(SKY * (FIELD / counts.shape[-1]) ** 2)
    noise: Array = rng.standard_normal(counts.shape, dtype=np.float32)
    noise *= np.sqrt(counts + sky)
    return noise + counts
