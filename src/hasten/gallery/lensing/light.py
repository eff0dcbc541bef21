"""Shapes of light on the sky: surface brightness at the places (x, y), in no unit of its own.

Places and sizes are in arcseconds. All arguments spread against each other as arrays do.
"""

import numpy as np

from hasten.gallery.lensing.lens import Array, rotate

_CORE = np.float32(0.05)
"""Below this radius a profile is flat: a pixel sees no sharper peak."""


def galaxy(
    x: Array, y: Array, *, radius: Array, index: Array, axis_ratio: Array, angle: Array
) -> Array:
    """A Sersic profile, half of its light within ``radius``: index 4 is an elliptical, 1 a disc."""
    distance = _distance(*_flattened(x, y, axis_ratio, angle)) / radius
    light: Array = np.exp((1 / 3 - 2 * index) * (distance ** (1 / index) - 1))
    return light


def ring(
    x: Array, y: Array, *, radius: Array, width: Array, axis_ratio: Array, angle: Array
) -> Array:
    """Even all around, as a ring galaxy's is, seen from the side."""
    distance = _distance(*_flattened(x, y, axis_ratio, angle))
    light: Array = np.exp(-0.5 * ((distance - radius) / width) ** 2)
    return light


def arms(
    x: Array, y: Array, *, radius: Array, pitch: Array, axis_ratio: Array, angle: Array
) -> Array:
    """Two arms of a disc, logarithmic spirals: ``pitch`` is the tangent of how they open."""
    along, across = _flattened(x, y, axis_ratio, angle)
    distance, direction = _distance(along, across), np.arctan2(across, along)
    wave = 0.5 + 0.5 * np.cos(2 * (direction - np.log(distance) / pitch))
    from_bulge = 1 - np.exp(-((distance / (0.6 * radius)) ** 2))
    light: Array = wave**3 * from_bulge * np.exp(-2 * distance / radius)
    return light


def tail(x: Array, y: Array, *, radius: Array, width: Array, length: Array, angle: Array) -> Array:
    """What tides draw out of a galaxy at ``angle``; opens as it goes round, for ``length`` rad."""
    along, across = rotate(x, y, angle)
    turned = np.arctan2(across, along) % np.float32(2 * np.pi)
    away = (_distance(along, across) - radius * (1 + 0.25 * turned)) / width
    light: Array = np.exp(-0.5 * away**2 - (turned / length) ** 2)
    return light


def _flattened(x: Array, y: Array, axis_ratio: Array, angle: Array) -> tuple[Array, Array]:
    """Places along and across an ellipse, as if it were drawn to a circle of the same area."""
    along, across = rotate(x, y, angle)
    return along * np.sqrt(axis_ratio), across / np.sqrt(axis_ratio)


def _distance(x: Array, y: Array) -> Array:
    distance: Array = np.sqrt(x**2 + y**2 + _CORE**2)
    return distance
