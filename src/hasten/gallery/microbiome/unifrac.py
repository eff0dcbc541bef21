"""UniFrac: how far apart two samples are on the tree of life, for all pairs of samples.

Every branch has a share of each sample: what part of the sample's counts lies below it (weighted),
or whether any does (unweighted). All kinds of UniFrac come from one number for a pair, the sum over
branches of length times the difference of the two shares, and one for a sample, the sum of length
times share. As in scikit-bio the branch above the root counts as one that all samples share.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from hasten.errors import HastenError
from hasten.gallery.microbiome.tree import Floats, Tree, refuse_bad_tree, sum_below, tips_of

BLOCK_BYTES = 2**20
"""Of differences that are held at a time: about what stays in a core's own cache."""


def unifrac_distances(
    table: npt.NDArray[Any], tree: Tree, *, weighted: bool, normalized: bool = False
) -> Floats:
    """Distances (samples, samples) of all pairs, from counts (samples, tips) and their tree.

    Unweighted ones are the share of branch length that is in one sample only, 0 to 1. Weighted ones
    are in units of branch length, 0 to 1 where ``normalized``. A pair whose branches all have no
    length is at distance 0. Cost: samples squared times branches; memory beside the answer: samples
    times branches, and ``BLOCK_BYTES``.
    """
    _refuse(table, tree, weighted, normalized)
    lengths = _lengths_below(table, tree, weighted)
    differing = _differences(lengths)
    if weighted and not normalized:
        return differing
    in_all = lengths.sum(axis=1)
    both = in_all[:, None] + in_all
    # Unweighted, the branches of a pair: in either sample. Shared ones are in both sums.
    scale = both if weighted else (both + differing) / 2
    found: Floats = np.divide(differing, scale, out=np.zeros_like(differing), where=scale > 0)
    return found


def _lengths_below(table: npt.NDArray[Any], tree: Tree, weighted: bool) -> Floats:
    """(samples, branches): length times share, without the branches that have none."""
    counts = np.asarray(table, np.float64)
    share = sum_below(tree, counts.T)
    share = share / counts.sum(axis=1) if weighted else (share > 0).astype(np.float64)
    kept = tree.length > 0
    return np.ascontiguousarray((share[kept] * tree.length[kept, None]).T)


def _differences(rows: Floats) -> Floats:
    """The sum of absolute differences of each row to each, a block of columns at a time."""
    count, columns = rows.shape
    sums = np.zeros((count, count))
    width = max(1, BLOCK_BYTES // (8 * max(count, 1)))
    for first in range(0, columns, width):
        block = np.ascontiguousarray(rows[:, first : first + width])
        held = np.empty_like(block)
        for row in range(count - 1):
            others = held[row + 1 :]
            np.subtract(block[row + 1 :], block[row], out=others)
            sums[row, row + 1 :] += np.abs(others, out=others).sum(axis=1)
    return sums + sums.T


def _refuse(table: npt.NDArray[Any], tree: Tree, weighted: bool, normalized: bool) -> None:
    refuse_bad_tree(tree)
    tips = len(tips_of(tree))
    if table.ndim != 2 or table.shape[1] != tips:
        raise HastenError(
            f"A table of shape {table.shape} does not fit a tree with {tips} tips.",
            fix="Give one row for a sample and one column for a tip.",
        )
    bad = ~((table >= 0) & np.isfinite(table)).all(axis=1)
    if bad.any():
        raise HastenError(
            f"Sample {bad.argmax()} has a count that is negative or not a number.",
            fix="Give counts of 0 or more.",
        )
    empty = ~(table > 0).any(axis=1)
    if empty.any():
        raise HastenError(
            f"Sample {empty.argmax()} is empty: it is at no place on the tree.",
            fix="Leave out the samples without counts.",
        )
    if normalized and not weighted:
        raise HastenError(
            "normalized=True is for weighted distances.",
            fix="Leave it out: unweighted ones are between 0 and 1 as they are.",
        )
