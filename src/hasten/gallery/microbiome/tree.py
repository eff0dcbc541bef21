"""Rooted trees in two arrays: how they are grown, and what lies below each of their nodes."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hasten.errors import HastenError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Tree(NamedTuple):
    """Node 0 is the root, and every other node has a higher number than its parent.

    Nodes without children are tips. The columns of a table are the tips by rising number.
    """

    parent: Integers
    """Of each node; -1 of the root."""
    length: Floats
    """Of the branch from each node's parent to it. The root's is a stem that all tips share."""


def tips_of(tree: Tree) -> Integers:
    is_tip = np.ones(len(tree.parent), np.bool_)
    is_tip[tree.parent[1:]] = False
    return np.flatnonzero(is_tip)


def refuse_bad_tree(tree: Tree) -> None:
    parent, length = np.asarray(tree.parent), np.asarray(tree.length)
    if parent.ndim != 1 or parent.shape != length.shape or len(parent) == 0:
        raise HastenError(
            f"A tree has parents of shape {parent.shape} and lengths of shape {length.shape}.",
            fix="Give one of each for every node.",
        )
    misplaced = (parent[1:] < 0) | (parent[1:] >= np.arange(1, len(parent)))
    if parent[0] != -1 or misplaced.any():
        node = 0 if parent[0] != -1 else 1 + int(misplaced.argmax())
        raise HastenError(
            f"Node {node} of a tree has the parent {parent[node]}.",
            fix="Number the nodes so that the root is 0, with parent -1, and a parent comes before "
            "its children.",
        )
    if not (length >= 0).all() or not np.isfinite(length).all():
        node = int((~((length >= 0) & np.isfinite(length))).argmax())
        raise HastenError(
            f"The branch of node {node} has the length {length[node]}.",
            fix="Give every branch a finite length of 0 or more.",
        )


def sum_below(tree: Tree, of_tips: npt.NDArray[Any]) -> Floats:
    """What the tips below each node come to: (tips, ...) in, (nodes, ...) out."""
    sums = np.zeros((len(tree.parent), *of_tips.shape[1:]))
    sums[tips_of(tree)] = of_tips
    for node in range(len(tree.parent) - 1, 0, -1):
        sums[tree.parent[node]] += sums[node]
    return sums


def grow_tree(tips: int, depth: float, rng: np.random.Generator) -> Tree:
    """A random tree: time and again one of the tips so far, each as likely, splits in two.

    Branch lengths are drawn independently, scaled so that a tip is ``depth`` from the root in the
    mean: no clock ticks alike in all lineages.
    """
    parent = np.full(2 * tips - 1, -1, np.int64)
    open_tips = [0]
    for first in range(1, 2 * tips - 1, 2):
        place = int(rng.integers(len(open_tips)))
        parent[first : first + 2] = open_tips[place]
        open_tips[place : place + 1] = [first, first + 1]
    length = rng.exponential(size=len(parent))
    length[0] = 0.0
    found = float(depths_of(Tree(parent, length))[open_tips].mean())
    return Tree(parent, length * (depth / found) if found else length)


def depths_of(tree: Tree) -> Floats:
    """How far each node is from the top of the stem."""
    depths = tree.length.copy()
    for node in range(1, len(depths)):
        depths[node] += depths[tree.parent[node]]
    return depths
