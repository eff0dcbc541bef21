"""Made-up samples of microbes: which were found, their sequences as text, a trait of the sample.

Everything here is a function of its arguments: no global random generator is read or changed.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hasten.gallery.microbiome.community import draw_samples, make_community, rarefy
from hasten.gallery.microbiome.evolution import Bases, evolve, with_reading_errors
from hasten.gallery.microbiome.tree import Floats, Integers, Tree, grow_tree

LETTERS = "ACGTN"
"""N is a base that was not read."""
VOCABULARY = 1 + len(LETTERS)
"""0 is padding, then the letters."""

COMMUNITY_SEED = 50_239
"""Of the tree, the genes and who likes what: training and evaluation are of the same world."""
TRAINING_SEED = 50_240
EVALUATION_SEED = 50_241
"""Of the samples only: a run's own seed changes the training, never the data."""

_TREE_DEPTH = 0.4
"""Changes for each base from the root to a tip: bacteria of different phyla."""
_READ_WRONG, _NOT_READ = 0.005, 0.002


@dataclass(frozen=True, kw_only=True)
class Samples:
    """One row, list or entry for each sample."""

    table: Integers
    """(samples, tips): how often each was read, rarefied to the same sum in every row."""
    tree: Tree
    reads: list[list[str]]
    """Letters, all reads of one length; a tip that was counted three times is there three times."""
    trait: Floats


def make_samples(rows: int, sequences: int, length: int, tips: int, seed: int) -> Samples:
    """``sequences`` reads of ``length`` letters in a sample, from ``tips`` kinds of microbes."""
    world = np.random.default_rng(COMMUNITY_SEED)
    tree = grow_tree(tips, _TREE_DEPTH, world)
    community = make_community(tree, world)
    genes = evolve(tree, length, world)

    rng = np.random.default_rng(seed)
    counts, factors = draw_samples(community, rows, sequences, rng)
    table = rarefy(counts, sequences, seed)
    found = np.repeat(np.tile(np.arange(tips), rows), table.ravel()).reshape(rows, sequences)
    read = with_reading_errors(genes[found], _READ_WRONG, _NOT_READ, LETTERS.index("N"), rng)
    return Samples(table=table, tree=tree, reads=_as_text(read), trait=factors[:, 0])


def _as_text(bases: Bases) -> list[list[str]]:
    letters = np.frombuffer(LETTERS.encode(), np.uint8)[bases]
    text: list[list[str]] = letters.view(f"S{bases.shape[-1]}")[..., 0].astype(str).tolist()
    return text


def pack_targets(trait: Floats, distances: Floats) -> Tensor:
    """(samples, 2 + samples): trait, row number, distances to all samples of the set.

    So a batch of any rows, in any order, carries the distances between them; and inputs and targets
    are a tensor each. Row numbers are exact in single precision up to 16 million.
    """
    rows = np.arange(len(trait))
    packed = np.concatenate([trait[:, None], rows[:, None], distances], axis=1)
    return torch.from_numpy(packed.astype(np.float32))


def trait_in(targets: Tensor) -> Tensor:
    return targets[:, 0]


def distances_in(targets: Tensor) -> Tensor:
    """Between the rows that are in the batch: (rows, rows)."""
    return targets[:, 2:].index_select(1, targets[:, 1].long())
