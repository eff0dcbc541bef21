"""Sequences of a gene that changed, base by base, along the branches of a tree."""

import numpy as np
import numpy.typing as npt

from hasten.gallery.microbiome.tree import Floats, Tree, tips_of

Bases = npt.NDArray[np.uint8]
"""0 to 3: A, C, G, T. Bit 1 tells A from G and C from T, the changes that come easily."""

_REGIONS = 6
_CONSERVED_RATE, _VARIABLE_RATE = 0.1, 1.9
"""Of change, by region in turns; 1 in the mean, so that lengths are changes for each base."""
_TRANSITION_RATIO = 2.0
"""How much faster A and G, C and T turn into each other than into any of the others."""
_TRANSITION = 2


def evolve(tree: Tree, length: int, rng: np.random.Generator) -> Bases:
    """The bases (tips, length) that come of one random sequence at the root.

    By Kimura's model of two rates, with regions that hardly change between those that do, as in the
    gene for 16S ribosomal RNA; nothing is inserted or lost.
    """
    rates = site_rates(length)
    nodes = np.empty((len(tree.parent), length), np.uint8)
    nodes[0] = rng.integers(0, 4, length)
    for node in range(1, len(nodes)):
        nodes[node] = nodes[tree.parent[node]] ^ _changes(tree.length[node] * rates, rng)
    return nodes[tips_of(tree)]


def site_rates(length: int) -> Floats:
    region = np.arange(length) * _REGIONS // length
    return np.where(region % 2, _VARIABLE_RATE, _CONSERVED_RATE)


def _changes(distance: Floats, rng: np.random.Generator) -> Bases:
    """What to flip of each base: nothing, the bit of a transition, or one of two transversions."""
    transition, transversion = kimura_probabilities(distance)
    drawn = rng.random(len(distance))
    other = rng.choice(np.array([1, 3], np.uint8), len(distance))
    flips = np.where(drawn < transition + transversion, other, np.uint8(0))
    return np.where(drawn < transition, np.uint8(_TRANSITION), flips)


def kimura_probabilities(distance: Floats) -> tuple[Floats, Floats]:
    """Of a transition, and of any transversion, after so many expected changes of a base."""
    slow = distance / (_TRANSITION_RATIO + 2)
    transversion = (1 - np.exp(-4 * slow)) / 2
    transition = 0.25 + np.exp(-4 * slow) / 4 - np.exp(-2 * (_TRANSITION_RATIO + 1) * slow) / 2
    return transition, transversion


def with_reading_errors(
    bases: Bases, wrong: float, unread: float, unread_as: int, rng: np.random.Generator
) -> Bases:
    """As a sequencer reads them: some bases wrong, all three others as likely, some not at all."""
    drawn = rng.random(bases.shape, dtype=np.float32)
    read = bases.copy()
    at = drawn < wrong
    read[at] ^= rng.integers(1, 4, int(at.sum()), dtype=np.uint8)
    read[drawn >= 1 - unread] = unread_as
    return read
