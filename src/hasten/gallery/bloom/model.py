"""The network that guesses which 2-grams went into a Bloom filter, and how good its guesses are."""

import torch
from torch import Tensor, nn

from hasten.gallery.bloom.data import FILTER_BITS, LABELS


class BloomMLP(nn.Module):
    """One logit for each of the 676 2-grams."""

    def __init__(self, dropout: float = 0.1) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(FILTER_BITS, 512),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(512, 256),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(256, LABELS),
        )

    def forward(self, bits: Tensor) -> Tensor:
        logits: Tensor = self.layers(bits)
        return logits


def dice(outputs: Tensor, targets: Tensor) -> Tensor:
    """The Dice coefficient of guessed and true 2-grams, 2|A and B| / (|A| + |B|), mean of rows."""
    guessed = torch.sigmoid(outputs) > 0.5
    true = targets > 0.5
    shared = (guessed & true).sum(dim=1)
    sizes = guessed.sum(dim=1) + true.sum(dim=1)
    # Every name has a 2-gram, so that only a row of no person at all is held from 0 / 0 here.
    return (2 * shared / sizes.clamp(min=1)).mean()
