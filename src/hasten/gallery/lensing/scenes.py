"""What is seen around a galaxy: the same kind of light behind it, lensed, or beside it, not lensed.

Each scene draws its own sizes and places and returns light on the sky, in no unit of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hasten.gallery.lensing import light
from hasten.gallery.lensing.lens import Array, deflect


class Draw:
    """Draws one value for each of some rows, to be spread over a row's pixels."""

    def __init__(self, rng: np.random.Generator, rows: int) -> None:
        self._rng, self._rows = rng, rows

    def between(self, low: float, high: float) -> Array:
        return self._rng.uniform(low, high, (self._rows, 1, 1)).astype(np.float32)

    def angle(self) -> Array:
        return self.between(0, 2 * np.pi)

    def distance(self) -> Array:
        """Of something from the middle of a galaxy."""
        return self.between(0.8, 2.8)


@dataclass(frozen=True, kw_only=True)
class Galaxy:
    """The one in front: where each pixel lies from its centre, and how it is flattened."""

    x: Array
    y: Array
    axis_ratio: Array
    angle: Array

    def rows(self, chosen: NDArray[np.bool_]) -> "Galaxy":
        return Galaxy(
            x=self.x[chosen],
            y=self.y[chosen],
            axis_ratio=self.axis_ratio[chosen],
            angle=self.angle[chosen],
        )


def lensed(draw: Draw, galaxy: Galaxy) -> Array:
    """A galaxy behind: its light where each pixel's ray comes from. Mass lies as light does."""
    radius = draw.between(1, 1.7)
    by_x, by_y = deflect(
        galaxy.x,
        galaxy.y,
        radius=radius,
        axis_ratio=galaxy.axis_ratio,
        angle=galaxy.angle,
        shear=draw.between(0, 0.08),
    )
    # Within half of the Einstein radius there is always more than one image of it.
    offset, direction = radius * draw.between(0.05, 0.5), draw.angle()
    x = galaxy.x - by_x - offset * np.cos(direction)
    y = galaxy.y - by_y - offset * np.sin(direction)
    return _small_galaxy(draw, x, y)


def companions(draw: Draw, galaxy: Galaxy) -> Array:
    """Two or three small galaxies nearby."""
    first, second, third = (_beside(draw, galaxy, draw.distance(), draw.angle()) for _ in range(3))
    together: Array = (
        first + draw.between(0.4, 1) * second + draw.between(-0.6, 0.8).clip(0) * third
    )
    return together


def spiral(draw: Draw, galaxy: Galaxy) -> Array:
    return light.arms(
        galaxy.x,
        galaxy.y,
        radius=draw.between(1, 2.2),
        pitch=draw.between(0.25, 0.6),
        axis_ratio=draw.between(0.5, 1),
        angle=draw.angle(),
    )


def ring(draw: Draw, galaxy: Galaxy) -> Array:
    return light.ring(
        galaxy.x,
        galaxy.y,
        radius=draw.distance(),
        width=draw.between(0.1, 0.3),
        axis_ratio=draw.between(0.45, 1),
        angle=draw.angle(),
    )


def merger(draw: Draw, galaxy: Galaxy) -> Array:
    """A companion, and the tail that tides have drawn out of it: an arc with nothing opposite."""
    distance, angle = draw.distance(), draw.angle()
    arc = light.tail(
        galaxy.x,
        galaxy.y,
        radius=distance,
        width=draw.between(0.1, 0.25),
        length=draw.between(0.8, 2),
        angle=angle,
    )
    both: Array = _beside(draw, galaxy, distance, angle) + draw.between(0.3, 1) * arc
    return both


def _beside(draw: Draw, galaxy: Galaxy, distance: Array, angle: Array) -> Array:
    x, y = galaxy.x - distance * np.cos(angle), galaxy.y - distance * np.sin(angle)
    return _small_galaxy(draw, x, y)


def _small_galaxy(draw: Draw, x: Array, y: Array) -> Array:
    return light.galaxy(
        x,
        y,
        radius=draw.between(0.12, 0.3),
        index=draw.between(0.7, 1.5),
        axis_ratio=draw.between(0.4, 1),
        angle=draw.angle(),
    )


Scene = Callable[[Draw, Galaxy], Array]
LOOK_ALIKES: tuple[Scene, ...] = (companions, spiral, ring, merger)
