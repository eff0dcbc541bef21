"""Made-up samples: many short sequences of bases each, and a trait that their composition tells.

Everything here is a function of its arguments: no global random generator is read or changed.
"""

import numpy as np
import torch
from torch import Tensor

VOCABULARY = 6
"""0 is padding, 1 to 4 are the bases A, T, C and G, 5 is a base that was not read."""
FIRST_BASE = 1

TRAINING_SEED = 50_240
EVALUATION_SEED = 50_241
"""Of the samples only: a run's own seed changes the training, never the data."""

_TRAIT_PER_SHARE = 10.0
"""Brings the trait to about -2 to 2."""


def make_samples(rows: int, sequences: int, length: int, seed: int) -> tuple[Tensor, Tensor]:
    """Bases (rows, sequences, length), and a trait (rows, 1) that follows the share of C and G."""
    rng = np.random.default_rng(seed)
    share = rng.uniform(0.3, 0.7, (rows, 1, 1)).astype(np.float32)
    shape = (rows, sequences, length)
    strong = rng.random(shape, dtype=np.float32) < share
    bases = FIRST_BASE + 2 * strong + rng.integers(0, 2, shape)
    found = strong.mean(axis=(1, 2), dtype=np.float64)
    trait = (_TRAIT_PER_SHARE * (found - 0.5)).astype(np.float32)
    return torch.from_numpy(bases), torch.from_numpy(trait[:, None])
