"""UniFrac of all pairs at once, against scikit-bio and the slow twin of the plain script."""

import io
import tracemalloc
from typing import Any

import numpy as np
import pytest
from skbio import TreeNode
from skbio.diversity import beta_diversity

from hasten.errors import HastenError
from hasten.gallery.microbiome import naive, unifrac
from hasten.gallery.microbiome.data import make_samples
from hasten.gallery.microbiome.tree import Tree, depths_of, grow_tree, sum_below, tips_of
from hasten.gallery.microbiome.unifrac import unifrac_distances

KINDS: list[dict[str, bool]] = [
    {"weighted": False},
    {"weighted": True},
    {"weighted": True, "normalized": True},
]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=["unweighted", "weighted", "normalized"])
FORKED = Tree(np.array([-1, 0, 0, 1, 1]), np.array([0.0, 1.0, 2.0, 0.5, 0.25]))
"""Tips 2, 3 and 4."""


def by_scikit_bio(table: np.ndarray, tree: Tree, *, weighted: bool, **options: Any) -> np.ndarray:
    nodes = [TreeNode(name=f"node {i}", length=length) for i, length in enumerate(tree.length)]
    for node, parent in enumerate(tree.parent[1:], 1):
        nodes[parent].append(nodes[node])
    taxa = [f"node {tip}" for tip in tips_of(tree)]
    metric = "weighted_unifrac" if weighted else "unweighted_unifrac"
    return beta_diversity(metric, table, tree=nodes[0], taxa=taxa, **options).data


def bushy_tree(nodes: int, rng: np.random.Generator) -> Tree:
    """Two branches from the root, then any number of children: three, or only one."""
    parents = [-1, 0, 0, *(int(rng.integers(1, node)) for node in range(3, nodes))]
    return Tree(np.array(parents), rng.exponential(size=nodes))


def draw_table(samples: int, tips: int, rng: np.random.Generator) -> np.ndarray:
    """The first samples have a single tip, two of them the same one, and no sample is empty."""
    table = rng.poisson(0.5, (samples, tips))
    table[:3] = 0
    table[[0, 1, 2], [0, 0, tips - 1]] = [1, 7, 2]
    table[table.sum(axis=1) == 0, tips // 2] = 1
    return table


@each_kind
@pytest.mark.parametrize("seed", range(6))
def test_the_distances_are_those_of_scikit_bio(seed: int, kind: dict[str, bool]) -> None:
    rng = np.random.default_rng(seed)
    tips = int(rng.integers(2, 40))
    tree = grow_tree(tips, 0.5, rng) if seed % 2 else bushy_tree(3 + tips, rng)
    table = draw_table(9, len(tips_of(tree)), rng)
    expected = by_scikit_bio(table, tree, **kind)
    np.testing.assert_allclose(unifrac_distances(table, tree, **kind), expected, atol=1e-12)


@each_kind
def test_samples_of_full_size_have_the_distances_of_scikit_bio(kind: dict[str, bool]) -> None:
    samples = make_samples(16, sequences=128, length=150, tips=1000, seed=3)
    found = unifrac_distances(samples.table, samples.tree, **kind)
    expected = by_scikit_bio(samples.table, samples.tree, **kind)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@each_kind
def test_branches_of_length_zero_are_as_in_scikit_bio(kind: dict[str, bool]) -> None:
    rng = np.random.default_rng(1)
    tree = grow_tree(20, 0.5, rng)
    tree.length[rng.random(len(tree.length)) < 0.5] = 0.0
    table = draw_table(9, 20, rng)
    expected = by_scikit_bio(table, tree, **kind)
    np.testing.assert_allclose(unifrac_distances(table, tree, **kind), expected, atol=1e-12)


@each_kind
def test_a_branch_above_the_root_is_shared_by_all_as_in_scikit_bio(kind: dict[str, bool]) -> None:
    rng = np.random.default_rng(2)
    rooted = grow_tree(12, 0.5, rng)
    stemmed = rooted._replace(length=np.concatenate([[3.0], rooted.length[1:]]))
    table = draw_table(9, 12, rng)
    found = unifrac_distances(table, stemmed, **kind)
    np.testing.assert_allclose(found, by_scikit_bio(table, stemmed, **kind), atol=1e-12)
    plain = kind == {"weighted": True}
    assert np.allclose(found, unifrac_distances(table, rooted, **kind)) is plain


def test_a_stem_in_newick_is_read_as_ours_is() -> None:
    """A check of ``by_scikit_bio`` itself: the tree as text, in the format of the field."""
    tree = TreeNode.read(io.StringIO("((c:0.5,d:0.25)b:1,a:2):3;"))
    table = np.array([[0, 1, 3], [2, 0, 1], [0, 0, 1]])
    found = beta_diversity("unweighted_unifrac", table, tree=tree, taxa=["a", "c", "d"]).data
    stemmed = FORKED._replace(length=np.array([3.0, 1.0, 2.0, 0.5, 0.25]))
    np.testing.assert_allclose(unifrac_distances(table, stemmed, weighted=False), found)


def test_distances_by_hand() -> None:
    table = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 3]])
    only, unweighted = 1.0, 0.25 / 1.75
    weighted, normalized = 0.75 * 0.5 + 0.75 * 0.25, 0.5625 / (1.5 + 1 + 0.125 + 0.1875)
    assert unifrac_distances(table, FORKED, weighted=False)[0, 1] == only
    assert unifrac_distances(table, FORKED, weighted=False)[1, 2] == pytest.approx(unweighted)
    assert unifrac_distances(table, FORKED, weighted=True)[0, 1] == pytest.approx(3.5)
    assert unifrac_distances(table, FORKED, weighted=True)[1, 2] == pytest.approx(weighted)
    found = unifrac_distances(table, FORKED, weighted=True, normalized=True)[1, 2]
    assert found == pytest.approx(normalized)


def test_the_distances_are_those_of_the_slow_twin() -> None:
    samples = make_samples(10, sequences=12, length=24, tips=48, seed=3)
    found = unifrac_distances(samples.table, samples.tree, weighted=True, normalized=True)
    for i in range(10):
        for j in range(10):
            assert naive.unifrac(samples, i, j) == pytest.approx(found[i, j], abs=1e-12)


@each_kind
def test_equal_samples_are_at_distance_zero_exactly(kind: dict[str, bool]) -> None:
    rng = np.random.default_rng(4)
    tree = grow_tree(30, 0.5, rng)
    row = rng.poisson(1.0, 30)
    found = unifrac_distances(np.stack([row, row[::-1], row, 2 * row]), tree, **kind)
    assert found[0, 2] == found[0, 3] == 0.0
    assert found[0, 1] > 0.0
    assert np.array_equal(found, found.T)
    assert not found.diagonal().any()


@each_kind
def test_a_tree_without_any_length_has_everybody_at_one_place(kind: dict[str, bool]) -> None:
    flat = FORKED._replace(length=np.zeros(5))
    assert not unifrac_distances(np.eye(3), flat, **kind).any()


@each_kind
def test_small_blocks_give_the_same_distances(
    kind: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    tree = grow_tree(40, 0.5, rng)
    table = draw_table(15, 40, rng)
    whole = unifrac_distances(table, tree, **kind)
    monkeypatch.setattr(unifrac, "BLOCK_BYTES", 1000)
    np.testing.assert_allclose(unifrac_distances(table, tree, **kind), whole, atol=1e-14)


def test_memory_does_not_grow_with_pairs_times_branches() -> None:
    rng = np.random.default_rng(6)
    tree = grow_tree(300, 0.5, rng)
    table = draw_table(300, 300, rng)
    tracemalloc.start()
    unifrac_distances(table, tree, weighted=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    of_pairs, of_samples = 8 * 300 * 300, 8 * 300 * len(tree.parent)
    assert peak < 3 * of_pairs + 6 * of_samples + 3 * unifrac.BLOCK_BYTES
    assert peak < of_pairs * len(tree.parent) / 20


@pytest.mark.parametrize(
    ("table", "what"),
    [
        (np.array([[1, 0, 0], [0, 0, 0]]), "Sample 1 is empty"),
        (np.array([[1, 0, 0], [2, -1, 0]]), "Sample 1 has a count that is negative"),
        (np.array([[1, np.nan, 0]]), "Sample 0 has a count"),
        (np.ones((2, 4)), "(2, 4) does not fit a tree with 3 tips"),
        (np.ones(3), "(3,) does not fit"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(table: np.ndarray, what: str) -> None:
    with pytest.raises(HastenError) as raised:
        unifrac_distances(table, FORKED, weighted=True)
    assert what in raised.value.what


@pytest.mark.parametrize(
    ("tree", "what"),
    [
        (Tree(np.array([0, 0, 0]), np.ones(3)), "Node 0 of a tree has the parent 0"),
        (Tree(np.array([-1, 2, 0]), np.ones(3)), "Node 1 of a tree has the parent 2"),
        (Tree(np.array([-1, 0, -1]), np.ones(3)), "Node 2 of a tree has the parent -1"),
        (Tree(np.array([-1, 0, 0]), np.array([0, -1.0, 1])), "node 1 has the length -1.0"),
        (Tree(np.array([-1, 0, 0]), np.array([0, 1, np.nan])), "node 2 has the length nan"),
        (Tree(np.array([-1, 0, 0]), np.ones(2)), "parents of shape (3,)"),
    ],
)
def test_a_tree_that_is_none_is_refused(tree: Tree, what: str) -> None:
    with pytest.raises(HastenError) as raised:
        unifrac_distances(np.ones((1, 2)), tree, weighted=False)
    assert what in raised.value.what


def test_unweighted_distances_are_not_normalized_twice() -> None:
    with pytest.raises(HastenError, match="normalized=True is for weighted"):
        unifrac_distances(np.eye(3), FORKED, weighted=False, normalized=True)


def test_a_grown_tree_has_its_tips_its_depth_and_two_children_everywhere() -> None:
    tree = grow_tree(200, 0.4, np.random.default_rng(7))
    tips = tips_of(tree)
    assert len(tips) == 200
    assert depths_of(tree)[tips].mean() == pytest.approx(0.4)
    assert set(np.bincount(tree.parent[1:], minlength=399)) == {0, 2}
    assert sum_below(tree, np.ones((200, 1)))[0] == 200


def test_the_smallest_trees_can_be_measured_on() -> None:
    rng = np.random.default_rng(8)
    assert unifrac_distances(np.ones((2, 1)), grow_tree(1, 0.4, rng), weighted=True).tolist() == [
        [0.0, 0.0],
        [0.0, 0.0],
    ]
    assert unifrac_distances(np.eye(2), grow_tree(2, 0.4, rng), weighted=False)[0, 1] == 1.0
