"""Made-up drives of a battery: smooth currents, and the voltage and temperature that follow.

Everything here is a function of its arguments: no global random generator is read or changed.
"""

import numpy as np
import torch
from torch import Tensor

CHANNELS = 3
"""Voltage, current, temperature; each about -1 to 1."""

TRAINING_SEED = 30_240
EVALUATION_SEED = 30_241
"""Of the drives only: a run's own seed changes the training, never the data."""

_WAVES = 4
_CAPACITY = 4.0
"""A current of 1 over a whole window takes a quarter of the charge."""
_RESISTANCE = 0.3
_NOISE = 0.02


def make_windows(rows: int, length: int, seed: int) -> tuple[Tensor, Tensor]:
    """Windows (rows, length, 3), and the charge at each one's end, 0 empty to 1 full, (rows, 1)."""
    rng = np.random.default_rng(seed)
    current = _draw_currents(rng, rows, length)
    used = current.cumsum(axis=1) / (length * _CAPACITY)
    charge = rng.uniform(0.3, 0.7, (rows, 1)).astype(np.float32) - used
    # A cell falls steeply when nearly empty, and sags under load.
    voltage = 2 * charge - 1 - 0.2 * np.exp(-8 * charge) - _RESISTANCE * current
    outside = rng.uniform(-1, 1, (rows, 1)).astype(np.float32)
    temperature = 0.5 * outside + (current**2).cumsum(axis=1) / length
    windows = np.stack([voltage, current, temperature], axis=2)
    windows += _NOISE * rng.standard_normal(windows.shape, dtype=np.float32)
    return torch.from_numpy(windows), torch.from_numpy(charge[:, -1:].copy())


def _draw_currents(rng: np.random.Generator, rows: int, length: int) -> np.ndarray:
    """Sums of a few waves of random height, pace and phase, one row each."""
    time = np.linspace(0, 1, length, dtype=np.float32)
    current = np.zeros((rows, length), np.float32)
    for _ in range(_WAVES):
        height, pace, phase = rng.random((3, rows, 1), dtype=np.float32)
        current += height * np.sin(2 * np.pi * (5 * pace * time + phase))
    return current / _WAVES
