"""A transformer over the bases of each sequence, and another over the sequences of each sample."""

import torch
from torch import Tensor, nn

from hasten.gallery.microbiome.data import VOCABULARY
from hasten.gallery.transformer import Block

HEADS = 4


class SampleTransformer(nn.Module):
    """One value for each sample. Sequences have no order, and get no positions."""

    def __init__(
        self, length: int = 150, width: int = 128, blocks: int = 4, *, fused: bool = True
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.zeros(1, length, width))
        self.base_blocks = _make_blocks(width, blocks, fused)
        self.sequence_blocks = _make_blocks(width, blocks, fused)
        self.head = nn.Linear(width, 1)

    def forward(self, bases: Tensor) -> Tensor:
        samples, sequences, length = bases.shape
        embedded = self.embedding(bases.view(samples * sequences, length)) + self.positions
        of_sequences = self.base_blocks(embedded).mean(dim=1).view(samples, sequences, -1)
        trait: Tensor = self.head(self.sequence_blocks(of_sequences).mean(dim=1))
        return trait


def _make_blocks(width: int, blocks: int, fused: bool) -> nn.Sequential:
    return nn.Sequential(*(Block(width, HEADS, causal=False, fused=fused) for _ in range(blocks)))


def mean_absolute_error(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).abs().mean()
