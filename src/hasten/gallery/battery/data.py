"""Recordings of made-up battery cells under the load of a car, and windows over them.

Everything here is a function of its arguments: no global random generator is read or changed.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hasten.gallery.battery.cell import discharge, draw_cells
from hasten.gallery.battery.route import Array, draw_powers

CHANNELS = 3
"""Current, voltage, temperature."""
LIMITS = ((-3.0, 10.0), (2.5, 4.2), (-10.0, 50.0))
"""Of each channel, in A, V and degrees Celsius, as in a data sheet: scaled to -1 and 1."""

AMBIENTS = (0.0, 10.0, 25.0, 40.0)
"""Of the climate chamber, in degrees Celsius: every cell makes a drive at each."""

TRAINING_SEED = 30_240
EVALUATION_SEED = 30_241
"""Of the recordings only: a run's own seed changes the training, never the data."""

_NOISE = (0.02, 0.003, 0.1)
"""Of the three sensors, in their units."""
_OFFSET = (0.02, 0.002, 0.3)
"""The same through a whole recording."""

Single = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Recordings:
    """What a battery tester writes, once a second: (drives, seconds) each."""

    current: Single
    """In A, positive where it is taken from the cell."""
    voltage: Single
    temperature: Single
    """Of the cell's surface, in degrees Celsius."""
    charge: Single
    """What is to be told from the others: 0 empty to 1 full."""


def make_recordings(cells: int, seconds: int, seed: int) -> Recordings:
    """Drives that begin nearly full and end nearly empty, as many of a cell as ``AMBIENTS``."""
    rng = np.random.default_rng(seed)
    drives = cells * len(AMBIENTS)
    driven = draw_cells(rng, cells).repeated(len(AMBIENTS))
    ambient = np.tile(AMBIENTS, cells) + rng.uniform(-2, 2, drives)
    start, end = rng.uniform(0.8, 0.95, drives), rng.uniform(0.1, 0.3, drives)
    power = draw_powers(rng, drives, seconds)
    current = _currents(power, (start - end) * driven.capacity_ah)
    voltage, temperature, charge = discharge(driven, current, start, ambient)
    measured = [
        _measure(rng, values, *errors)
        for values, *errors in zip((current, voltage, temperature), _NOISE, _OFFSET, strict=True)
    ]
    return Recordings(
        current=measured[0],
        voltage=measured[1],
        temperature=measured[2],
        charge=charge.astype(np.float32),
    )


def _currents(power: Array, used_ah: Array) -> Array:
    """Of one cell, at about one voltage: each car has as many of them as its drive needs to use so
    much of each. Within what a cell may give and take."""
    mean = 3600 * used_ah / power.shape[1]
    low, high = LIMITS[0]
    wanted = power / power.mean(axis=1, keepdims=True) * mean[:, None]
    current: Array = np.clip(wanted, low, high)
    return current


def _measure(rng: np.random.Generator, values: Array, noise: float, offset: float) -> Single:
    errors = rng.normal(0, noise, values.shape) + rng.normal(0, offset, (len(values), 1))
    return (values + errors).astype(np.float32)


def make_windows(recordings: Recordings, length: int, stride: int) -> tuple[Tensor, Tensor]:
    """All windows of ``length`` seconds, ``stride`` apart: scaled sensors (rows, length, 3), and
    the charge at the last second of each, (rows, 1)."""
    sensors = (recordings.current, recordings.voltage, recordings.temperature)
    scaled = [_scale(values, limits) for values, limits in zip(sensors, LIMITS, strict=True)]
    series = torch.from_numpy(np.stack(scaled, axis=2))
    windows = series.unfold(1, length, stride).mT.contiguous().flatten(0, 1)
    ends = torch.from_numpy(recordings.charge)[:, length - 1 :: stride]
    return windows, ends.reshape(-1, 1).contiguous()


def _scale(values: Single, limits: tuple[float, float]) -> Single:
    low, high = limits
    return 2 * (values - low) / (high - low) - 1
