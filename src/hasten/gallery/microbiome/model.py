"""A transformer over the bases of each sequence, and another over the sequences of each sample."""

import torch
from torch import Tensor, nn

from hasten.gallery.microbiome.data import VOCABULARY, distances_in, trait_in
from hasten.gallery.transformer import Block

HEADS = 4
COORDINATES = 16
"""Of a sample, in the space in which distances are compared with UniFrac."""
DISTANCE_WEIGHT = 10.0
"""Of the error of distances, which are far smaller than the trait."""


class SampleTransformer(nn.Module):
    """(samples, 1 + coordinates): the trait of each sample, and where it lies among the others.

    Sequences have no order, and get no positions.
    """

    def __init__(self, length: int = 150, width: int = 128, blocks: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.randn(1, length, width))
        self.base_blocks = _make_blocks(width, blocks)
        self.sequence_blocks = _make_blocks(width, blocks)
        self.head = nn.Linear(width, 1 + COORDINATES)

    def forward(self, bases: Tensor) -> Tensor:
        samples, sequences, length = bases.shape
        embedded = self.embedding(bases.view(samples * sequences, length)) + self.positions
        of_sequences = self.base_blocks(embedded).mean(dim=1).view(samples, sequences, -1)
        of_samples: Tensor = self.head(self.sequence_blocks(of_sequences).mean(dim=1))
        return of_samples


def _make_blocks(width: int, blocks: int) -> nn.Sequential:
    return nn.Sequential(*(Block(width, HEADS, causal=False) for _ in range(blocks)))


def trait_and_distance_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """The squared error of the trait, and that of the distances between the samples of the batch.

    The second compares every sample with every other, so that the loss of a batch is not the mean
    of its parts' losses.
    """
    of_trait = (outputs[:, 0] - trait_in(targets)).square().mean()
    of_distances = (embedded_distances(outputs) - distances_in(targets)).square()
    pairs = len(outputs) * (len(outputs) - 1)  # the distance to itself is no pair
    return of_trait + DISTANCE_WEIGHT * of_distances.sum() / max(pairs, 1)


def embedded_distances(outputs: Tensor) -> Tensor:
    """Between the coordinates of all samples: (rows, rows). In single precision at least, as a
    difference of close numbers in 16 bits has hardly a digit that is right."""
    coordinates = outputs[:, 1:].to(torch.promote_types(outputs.dtype, torch.float32))
    squared = (coordinates[:, None] - coordinates).square().sum(dim=-1)
    return (squared + 1e-8).sqrt()  # a root has no finite slope at zero


def mean_absolute_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Of the trait."""
    return (outputs[:, 0] - trait_in(targets)).abs().mean()


def unifrac_correlation(outputs: Tensor, targets: Tensor) -> Tensor:
    """Of embedded distances with UniFrac, over all pairs: what a Mantel test looks at."""
    first, second = torch.triu_indices(len(outputs), len(outputs), 1, device=outputs.device)
    both = (embedded_distances(outputs), distances_in(targets))
    return torch.corrcoef(torch.stack([each[first, second] for each in both]))[0, 1]
