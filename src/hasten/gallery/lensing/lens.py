"""How the mass of a galaxy bends the light that comes from behind it.

Angles on the sky are in arcseconds. All arguments spread against each other as arrays do.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""Of 32-bit floats."""


def rotate(x: Array, y: Array, angle: Array) -> tuple[Array, Array]:
    """Coordinates along and across an axis that lies at ``angle`` (radians) to x."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return cosine * x + sine * y, cosine * y - sine * x


def deflect(
    x: Array, y: Array, *, radius: Array, axis_ratio: Array, angle: Array, shear: Array
) -> tuple[Array, Array]:
    """Of a singular isothermal ellipsoid, with what the galaxies around it add as external shear.

    ``radius`` is its Einstein radius: that of the circle with the area within the critical
    convergence. ``axis_ratio`` is of the mass, below 1; ``shear`` lies along the same axis. The ray
    that is seen at (x, y) comes from (x, y) less the deflection.
    """
    along, across = rotate(x, y, angle)
    flattening = np.sqrt(1 - axis_ratio**2)
    strength = radius * np.sqrt(axis_ratio) / flattening
    # Never zero: a ray through the very centre has no direction to be bent in.
    distance = np.sqrt((axis_ratio * along) ** 2 + across**2) + np.float32(1e-6)
    by_along = strength * np.arctan(flattening * along / distance) + shear * along
    by_across = strength * np.arctanh(flattening * across / distance) - shear * across
    return rotate(by_along, by_across, -angle)
