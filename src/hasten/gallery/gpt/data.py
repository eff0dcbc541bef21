"""Windows of a text, and of the same text one token further.

Everything here is a function of its arguments and of the Python that runs it: no global random
generator is read or changed.
"""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hasten.gallery.gpt.vocabulary import Tokens

TRAINING_SEED = 60_240
EVALUATION_SEED = 60_241
"""Of where the windows begin: a run's own seed changes the training, never the data."""


def draw_starts(tokens: int, rows: int, length: int, seed: int) -> npt.NDArray[np.int64]:
    """Where each window begins, anywhere in the text; windows may overlap."""
    return np.random.default_rng(seed).integers(0, tokens - length, rows)


def make_windows(tokens: Tokens, rows: int, length: int, seed: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets (rows, length): the targets are the inputs, one token further."""
    starts = draw_starts(len(tokens), rows, length, seed)
    windows = tokens[starts[:, None] + np.arange(length + 1)].astype(np.int64)
    return torch.from_numpy(windows[:, :-1].copy()), torch.from_numpy(windows[:, 1:].copy())
