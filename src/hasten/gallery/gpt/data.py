"""A made-up language: words by Zipf's law, each followed by its successor half of the time.

Everything here is a function of its arguments: no global random generator is read or changed.
"""

import numpy as np
import torch
from torch import Tensor

TRAINING_SEED = 60_240
EVALUATION_SEED = 60_241
"""Of the tokens only: a run's own seed changes the training, never the data."""

_GOES_ON = 0.5
"""How often the next token is the successor of the last one, not a new word."""


def make_tokens(rows: int, length: int, vocabulary: int, seed: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets (rows, length): the targets are the inputs, one token further."""
    rng = np.random.default_rng(seed)
    words = _draw_words(rng, (rows, length + 1), vocabulary)
    place = np.arange(length + 1)
    begins = rng.random((rows, length + 1)) >= _GOES_ON
    begins[:, 0] = True
    # Where the word began that each place belongs to; from there on it counts up.
    start = np.maximum.accumulate(np.where(begins, place, 0), axis=1)
    tokens = (np.take_along_axis(words, start, axis=1) + place - start) % vocabulary
    inputs, targets = tokens[:, :-1].copy(), tokens[:, 1:].copy()
    return torch.from_numpy(inputs), torch.from_numpy(targets)


def _draw_words(rng: np.random.Generator, shape: tuple[int, int], vocabulary: int) -> np.ndarray:
    weights = 1.0 / np.arange(1, vocabulary + 1)
    bounds = np.cumsum(weights / weights.sum())
    # The last bound may be a rounding below 1.
    return np.minimum(np.searchsorted(bounds, rng.random(shape)), vocabulary - 1)
