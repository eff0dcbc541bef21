"""Who lives in a sample: microbes on a tree, favoured or not by what the samples differ in."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hasten.errors import HastenError
from hasten.gallery.microbiome.tree import Floats, Integers, Tree, tips_of

FACTORS = 3
"""In which samples differ; the first of them is the trait."""

_EFFECT = 1.0
"""Standard deviation over tips: a tip that gains most from a factor becomes e^3 times as common."""
_COMMONNESS = 1.0
"""Of tips, standard deviation of the log: a few make up most of a sample."""
_CONCENTRATION = 50.0
"""How closely samples with the same factors agree; higher is closer."""
_DEEPER = 4
"""How many times as many reads a sample has in the median as it is rarefied to."""


class Community(NamedTuple):
    tree: Tree
    commonness: Floats
    """(tips,): log, in a sample with all factors at zero."""
    effects: Floats
    """(factors, tips): log change of abundance with each factor."""


def make_community(tree: Tree, rng: np.random.Generator) -> Community:
    tips = tips_of(tree)
    steps = rng.normal(size=(FACTORS, len(tree.parent))) * np.sqrt(tree.length)
    # Effects wander along the branches as the genes do, so that kin respond alike.
    for node in range(1, len(tree.parent)):
        steps[:, node] += steps[:, tree.parent[node]]
    effects = steps[:, tips]
    effects = _EFFECT * (effects - effects.mean(1, keepdims=True)) / effects.std(1, keepdims=True)
    return Community(tree, rng.normal(scale=_COMMONNESS, size=len(tips)), effects)


def draw_samples(
    community: Community, rows: int, depth: int, rng: np.random.Generator
) -> tuple[Integers, Floats]:
    """Counts (rows, tips), ``depth`` or more in each row, and the factors (rows, factors)."""
    factors = rng.normal(size=(rows, FACTORS))
    weights = np.exp(community.commonness + factors @ community.effects)
    expected = weights / weights.sum(axis=1, keepdims=True)
    drawn = rng.gamma(_CONCENTRATION * expected)  # a Dirichlet distribution, once divided
    reads = depth + (depth * (_DEEPER - 1) * rng.lognormal(sigma=0.5, size=rows)).astype(np.int64)
    return rng.multinomial(reads, drawn / drawn.sum(axis=1, keepdims=True)), factors


def rarefy(table: npt.NDArray[Any], depth: int, seed: int) -> Integers:
    """Each row cut down to ``depth`` of its counts, drawn without putting back.

    Samples of unequal depth differ for that alone: the deeper one has more of what is rare.
    """
    held = table.sum(axis=1)
    if (held < depth).any():
        row = int((held < depth).argmax())
        raise HastenError(
            f"Sample {row} has {held[row]} counts, fewer than the {depth} to rarefy to.",
            fix=f"Leave it out, or rarefy to {int(held.min())}.",
        )
    rng = np.random.default_rng(seed)
    return np.stack([rng.multivariate_hypergeometric(row, depth) for row in table])
