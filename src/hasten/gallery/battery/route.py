"""Drives of an electric car: speeds over time, and the power that they take.

A drive is a row of trips from stop to stop: idle, accelerate, cruise, brake. In towns they are slow
and short, on highways fast and long.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Range = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class _Style:
    """From where to where the figures of a trip are drawn; in m, s and what follows from them."""

    idle_s: Range
    speed: Range
    acceleration: Range
    cruise_s: Range
    braking: Range


_TOWN = _Style(
    idle_s=(4, 40), speed=(6, 17), acceleration=(0.7, 2.0), cruise_s=(5, 60), braking=(0.8, 2.5)
)
_HIGHWAY = _Style(
    idle_s=(2, 15), speed=(22, 36), acceleration=(0.6, 1.6), cruise_s=(90, 500), braking=(0.6, 1.8)
)
_HIGHWAY_SHARES = (0.0, 0.15, 0.6)
"""Of trips: in the town, mixed, and mostly on highways."""
_SHORTEST_TRIP_S = 14.0
"""What any takes at least, so that enough of them are drawn."""
_HILL_S = 20
_GRADE = 0.01
"""Typical: it rises or falls by one in a hundred, and differently after each ``_HILL_S``."""

# A compact car. Newton's law gives the force at the wheels.
_MASS_KG = 1_500.0
_ROLLING = 0.01
_DRAG = 0.38
"""Half the density of air times the drag area, in kg/m."""
_GRAVITY = 9.81
_AUXILIARY_W = 400.0
"""Lights, heating, electronics: taken also while the car stands."""
_DRIVE_EFFICIENCY = 0.9
_REGENERATION = 0.6
"""The share of the braking power that comes back; friction brakes do the rest."""


def draw_powers(rng: np.random.Generator, drives: int, seconds: int) -> Array:
    """Watts that each drive takes from its battery, negative where braking gives some back."""
    kinds = rng.integers(len(_HIGHWAY_SHARES), size=drives)
    return np.stack([_draw_power(rng, _HIGHWAY_SHARES[kind], seconds) for kind in kinds])


def _draw_power(rng: np.random.Generator, highway_share: float, seconds: int) -> Array:
    speed = _draw_speed(rng, highway_share, seconds)
    acceleration, speed = np.diff(speed), speed[:-1]
    hills = np.arange(0, seconds + _HILL_S, _HILL_S)
    grade = np.interp(np.arange(seconds), hills, rng.normal(0, _GRADE, len(hills)))
    weight = _MASS_KG * _GRAVITY
    force = _MASS_KG * acceleration + weight * (grade + _ROLLING) + _DRAG * speed**2
    wheels = force * speed
    drawn: Array = np.where(wheels > 0, wheels / _DRIVE_EFFICIENCY, wheels * _REGENERATION)
    return drawn + _AUXILIARY_W


def _draw_speed(rng: np.random.Generator, highway_share: float, seconds: int) -> Array:
    """The speed at each second of one drive; one more than asked for, to differentiate."""
    trips = int(seconds / _SHORTEST_TRIP_S) + 1
    on_highway = rng.random(trips) < highway_share

    def draw(in_town: Range, elsewhere: Range) -> Array:
        low, high = np.where(on_highway, np.transpose([elsewhere]), np.transpose([in_town]))
        drawn: Array = rng.uniform(low, high)
        return drawn

    speed = draw(_TOWN.speed, _HIGHWAY.speed)
    later = speed * rng.uniform(0.85, 1.1, trips)  # traffic
    lasts = [
        draw(_TOWN.idle_s, _HIGHWAY.idle_s),
        speed / draw(_TOWN.acceleration, _HIGHWAY.acceleration),
        draw(_TOWN.cruise_s, _HIGHWAY.cruise_s),
        later / draw(_TOWN.braking, _HIGHWAY.braking),
    ]
    reached = [np.zeros(trips), speed, later, np.zeros(trips)]
    times = np.concatenate([[0.0], np.stack(lasts, axis=1).ravel().cumsum()])
    speeds = np.concatenate([[0.0], np.stack(reached, axis=1).ravel()])
    at_each_second: Array = np.interp(np.arange(seconds + 1), times, speeds)
    return at_each_second
