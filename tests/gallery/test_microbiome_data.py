"""Made-up microbes: genes that follow their tree, samples that follow their trait, their reads."""

import numpy as np
import pytest
import torch

from hasten.errors import HastenError
from hasten.gallery.microbiome import naive
from hasten.gallery.microbiome.community import draw_samples, make_community, rarefy
from hasten.gallery.microbiome.data import (
    EVALUATION_SEED,
    TRAINING_SEED,
    Samples,
    distances_in,
    make_samples,
    pack_targets,
    trait_in,
)
from hasten.gallery.microbiome.evolution import (
    evolve,
    kimura_probabilities,
    site_rates,
    with_reading_errors,
)
from hasten.gallery.microbiome.task import encode_reads
from hasten.gallery.microbiome.tree import grow_tree, tips_of
from hasten.gallery.microbiome.unifrac import unifrac_distances


@pytest.fixture(scope="module")
def samples() -> Samples:
    return make_samples(40, sequences=12, length=24, tips=48, seed=7)


def test_the_same_seed_makes_the_same_samples(samples: Samples) -> None:
    again = make_samples(40, sequences=12, length=24, tips=48, seed=7)
    assert again.reads == samples.reads
    assert np.array_equal(again.table, samples.table)
    assert np.array_equal(again.trait, samples.trait)


def test_another_seed_makes_other_samples_of_the_same_world(samples: Samples) -> None:
    other = make_samples(40, sequences=12, length=24, tips=48, seed=8)
    assert other.reads != samples.reads
    assert not np.array_equal(other.trait, samples.trait)
    for one, another in zip(samples.tree, other.tree, strict=True):
        assert np.array_equal(one, another)


def test_a_base_stays_at_first_and_is_anything_in_the_end() -> None:
    transition, transversion = kimura_probabilities(np.array([0.0, 1e-6, 50.0]))
    assert transition.tolist() == pytest.approx([0.0, 0.5e-6, 0.25], rel=1e-4)
    assert transversion.tolist() == pytest.approx([0.0, 0.5e-6, 0.5], rel=1e-4)


def test_genes_change_as_often_as_their_branches_are_long() -> None:
    """Two tips with a common parent, at the ends of two branches of 0.05."""
    tree = grow_tree(2, 0.05, np.random.default_rng(0))
    apart = float(tree.length.sum())
    first, second = evolve(tree, 60_000, np.random.default_rng(1))
    rates = site_rates(60_000)
    expected = sum(kimura_probabilities(apart * rates)).mean()
    assert (first != second).mean() == pytest.approx(expected, rel=0.05)
    assert rates.mean() == pytest.approx(1.0)


def test_easy_changes_are_between_a_and_g_and_between_c_and_t() -> None:
    tree = grow_tree(2, 0.02, np.random.default_rng(0))
    first, second = evolve(tree, 60_000, np.random.default_rng(1))
    easy = {("A", "G"), ("G", "A"), ("C", "T"), ("T", "C")}
    changed = first != second
    pairs = zip(first[changed], second[changed], strict=True)
    share = np.mean([("ACGT"[a], "ACGT"[b]) in easy for a, b in pairs])
    assert share == pytest.approx(0.5, abs=0.05)  # one third if all were alike


def test_conserved_regions_change_less_than_variable_ones() -> None:
    genes = evolve(grow_tree(100, 0.4, np.random.default_rng(2)), 150, np.random.default_rng(3))
    differs = (genes != genes[0]).mean(axis=0)
    slow = site_rates(150) < 1
    assert differs[slow].mean() < 0.3 * differs[~slow].mean()


def test_kin_have_like_genes() -> None:
    rng = np.random.default_rng(4)
    tree = grow_tree(60, 0.4, rng)
    genes = evolve(tree, 150, rng)
    differing = (genes[:, None] != genes).mean(axis=2)
    # Weighted UniFrac of two samples of one tip each is the way from tip to tip.
    apart = unifrac_distances(np.eye(60), tree, weighted=True)
    upper = np.triu_indices(60, 1)
    assert np.corrcoef(differing[upper], apart[upper])[0, 1] > 0.8


def test_a_sequencer_misreads_as_often_as_said() -> None:
    rng = np.random.default_rng(5)
    bases = rng.integers(0, 4, (200, 500), dtype=np.uint8)
    read = with_reading_errors(bases, 0.05, 0.02, 4, rng)
    assert (read == 4).mean() == pytest.approx(0.02, rel=0.1)
    assert ((read != bases) & (read != 4)).mean() == pytest.approx(0.05, rel=0.1)
    assert read.max() == 4


def test_kin_respond_alike_to_what_samples_differ_in() -> None:
    rng = np.random.default_rng(6)
    tree = grow_tree(400, 0.4, rng)
    effects = make_community(tree, rng).effects[0]
    tips = tips_of(tree)
    siblings = [(i, i + 1) for i in range(399) if tree.parent[tips[i]] == tree.parent[tips[i + 1]]]
    first, second = np.array(siblings).T
    assert len(siblings) > 50
    assert np.corrcoef(effects[first], effects[second])[0, 1] > 0.7


def test_samples_are_at_least_as_deep_as_asked() -> None:
    rng = np.random.default_rng(7)
    counts, _ = draw_samples(make_community(grow_tree(50, 0.4, rng), rng), 100, 30, rng)
    depths = counts.sum(axis=1)
    assert depths.min() >= 30
    assert len(set(depths)) > 50


def test_rarefied_rows_have_the_depth_and_nothing_that_was_not_there() -> None:
    table = np.random.default_rng(8).poisson(3.0, (50, 40))
    rarefied = rarefy(table, 60, seed=1)
    assert (rarefied.sum(axis=1) == 60).all()
    assert (rarefied >= 0).all()
    assert (rarefied <= table).all()
    assert np.array_equal(rarefied, rarefy(table, 60, seed=1))
    assert not np.array_equal(rarefied, rarefy(table, 60, seed=2))


def test_rarefying_is_fair() -> None:
    table = np.tile([10, 30, 60, 0], (2000, 1))
    mean = rarefy(table, 10, seed=1).mean(axis=0)
    assert mean.tolist() == pytest.approx([1.0, 3.0, 6.0, 0.0], abs=0.15)
    # Without putting back: all 100 of 100 are what was there.
    assert np.array_equal(rarefy(table, 100, seed=1), table)


def test_a_sample_that_is_too_shallow_to_rarefy_is_refused() -> None:
    with pytest.raises(HastenError) as raised:
        rarefy(np.array([[5, 5], [3, 4]]), 8, seed=0)
    assert raised.value.what == "Sample 1 has 7 counts, fewer than the 8 to rarefy to."
    assert "rarefy to 7" in str(raised.value.fix)


def test_every_count_of_the_table_is_a_read(samples: Samples) -> None:
    assert (samples.table.sum(axis=1) == 12).all()
    assert {len(reads) for reads in samples.reads} == {12}
    assert {len(read) for reads in samples.reads for read in reads} == {24}
    letters = {letter for reads in samples.reads for read in reads for letter in read}
    assert letters == set("ACGTN")


def test_reads_of_one_microbe_differ_by_reading_errors_only(samples: Samples) -> None:
    row = int(samples.table.max(axis=1).argmax())
    tip = int(samples.table[row].argmax())
    first = int(samples.table[row, :tip].sum())
    alike = samples.reads[row][first : first + samples.table[row, tip]]
    assert len(alike) >= 3
    for read in alike[1:]:
        assert sum(a != b for a, b in zip(read, alike[0], strict=True)) <= 3


def test_the_fast_encoder_equals_the_slow_one(samples: Samples) -> None:
    dataset = naive.MicrobiomeDataset(samples)
    tokens = torch.stack([dataset[i][0] for i in range(len(dataset))])
    assert torch.equal(encode_reads(samples.reads), tokens)


def test_letters_become_tokens_and_strange_ones_are_not_read() -> None:
    assert encode_reads([["ACGTN", "NNXac"]]).tolist() == [[[1, 2, 3, 4, 5], [5, 5, 5, 5, 5]]]


def test_a_batch_of_any_rows_carries_the_distances_between_them(samples: Samples) -> None:
    distances = unifrac_distances(samples.table, samples.tree, weighted=True, normalized=True)
    targets = pack_targets(samples.trait, distances)
    rows = [31, 4, 4, 17, 0, 39]
    np.testing.assert_allclose(
        distances_in(targets[rows]), distances[np.ix_(rows, rows)], rtol=1e-6
    )
    np.testing.assert_allclose(trait_in(targets[rows]), samples.trait[rows], rtol=1e-6)


def test_the_trait_can_be_told_from_the_counts() -> None:
    """By a straight line, from samples that it was not fitted to."""
    training = make_samples(512, sequences=12, length=24, tips=48, seed=TRAINING_SEED)
    evaluation = make_samples(64, sequences=12, length=24, tips=48, seed=EVALUATION_SEED)
    counts = training.table - training.table.mean(axis=0)
    fitted = np.linalg.solve(counts.T @ counts + 5 * np.eye(48), counts.T @ training.trait)
    guesses = (evaluation.table - training.table.mean(axis=0)) @ fitted + training.trait.mean()
    error = np.abs(guesses - evaluation.trait).mean()
    chance = np.abs(training.trait.mean() - evaluation.trait).mean()
    print(f"chance {chance:.3f}, a straight line {error:.3f}")
    assert error < 0.7 * chance
