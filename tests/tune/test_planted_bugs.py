"""Every bug that is planted is refuted, by the check that is made for it; right changes pass.

Real worker processes. The naive side of a task is run once for all bugs on it.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hasten.measure.lab import Lab
from hasten.measure.messages import Failed, Repeated
from hasten.measure.worker import WorkerFailure
from hasten.records.plan import NAIVE, Plan, RawPart, Rung
from hasten.records.verdict import NumericsClaim
from hasten.tune.parity import prove_plan
from hasten.tune.prove import Prover
from quick import fork_all

BUGS = Path(__file__).parents[1] / "tasks" / "bugs.py"
PARITY_S = 120.0


@pytest.fixture(autouse=True)
def _forked(monkeypatch: pytest.MonkeyPatch) -> None:
    fork_all(monkeypatch.setattr)


class Bench:
    """One lab and one prover a task."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Lab, Prover, dict[str, Rung]]] = {}

    def prove(self, task: str, parts: dict[str, RawPart]) -> NumericsClaim:
        lab, prover, rungs = self._on(task)
        return prove_plan(prover, lab, Plan(parts=parts), rungs, PARITY_S, lambda message: None)

    def prover(self, task: str) -> Prover:
        return self._on(task)[1]

    def _on(self, task: str) -> tuple[Lab, Prover, dict[str, Rung]]:
        if task not in self._open:
            lab = Lab(task if task.startswith("gallery:") else f"{BUGS}:{task}", seed=4)
            described = lab.describe()
            self._open[task] = lab, Prover(lab, described.traits, seed=4), described.rungs
        return self._open[task]

    def close(self) -> None:
        for lab, _, _ in self._open.values():
            lab.__exit__()


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.close()


@pytest.mark.parametrize(
    ("task", "bug", "check", "word"),
    [
        ("plain", "accumulation_off_by_k", "rounding", ""),
        ("plain", "loss_divided_twice", "rounding", ""),
        ("plain", "remainder_dropped", "rounding", ""),
        ("plain", "last_window_dropped", "rounding", "s 5: 0.weight"),
        ("plain", "rate_stepped_per_micro_batch", "rounding", "schedule"),
        ("plain", "clip_before_unscale", "rounding", "gradients"),
        ("plain", "gradients_wrong_at_equal_loss", "rounding", "0."),
        ("plain", "coarse_weights", "rounding", ""),
        ("plain", "optimizer_state_lost", "rounding", "updates"),
        ("plain", "sample_dropped", "data", "batch 6"),
        ("plain", "order_changed_from_epoch_two", "data", "batch 7"),
        ("pairwise", "pairwise_split", "rounding", ""),
        ("remembering", "state_detached_instead_of_reset", "rounding", "6"),
        ("normalizing", "batchnorm_in_eval", "rounding", ""),
        ("normalizing", "model_in_eval", "start", "settings"),
        ("dropping", "same_mask", "randomness", "drew the same random numbers"),
        ("dropping", "same_mask_by_function", "randomness", "drew the same random numbers"),
        ("dropping", "other_rate", "randomness", "keeps"),
        ("dropping", "not_rescaled", "randomness", "another distribution"),
        ("dropping_by_function", "same_mask_by_function", "randomness", "same random numbers"),
    ],
)
def test_a_planted_bug_is_refuted(bench: Bench, task: str, bug: str, check: str, word: str) -> None:
    claim = bench.prove(task, {bug: {}})
    assert (claim.verdict, claim.checks[-1].name) == ("refuted", check), claim
    assert word in claim.why()


def test_a_crash_in_the_repeats_is_said_of_the_randomness(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> Repeated:
        raise WorkerFailure(
            Failed(kind="crashed", what="The training raised: Broken: it:\nOSError")
        )

    monkeypatch.setattr(Prover, "_repeat", crash)
    claim = bench.prove("dropping", {"fused_optimizer": {}})
    check = claim.checks[-1]
    assert (claim.verdict, check.name) == ("not_proven", "randomness")
    assert check.why == "The training raised: Broken: it: OSError"


def test_one_layer_that_keeps_its_mask_is_found_beside_one_that_does_not(bench: Bench) -> None:
    claim = bench.prove("dropping", {"same_mask": {"bit": 1}})
    assert (claim.verdict, claim.checks[-1].name) == ("refuted", "randomness"), claim
    assert "drew a mask again in 15 of 16 repeats" in claim.why()


@pytest.mark.parametrize("bit", [0, 15, 23, 31])
def test_a_flipped_bit_before_the_first_step_is_refuted(bench: Bench, bit: int) -> None:
    claim = bench.prove("plain", {"bit_flipped_before_the_first_step": {"bit": bit}})
    assert (claim.verdict, claim.checks[-1].name) == ("refuted", "start")
    assert "0.weight" in claim.why()


@pytest.mark.parametrize("bit", [23, 30])
def test_a_flipped_exponent_bit_after_the_first_step_is_refuted(bench: Bench, bit: int) -> None:
    claim = bench.prove("plain", {"bit_flipped_after_the_first_step": {"bit": bit}})
    assert (claim.verdict, claim.checks[-1].name) == ("refuted", "rounding"), claim


def test_an_optimizer_state_that_is_not_restored_is_refuted(bench: Bench) -> None:
    check = bench.prover("hidden_momentum").prove_resuming(NAIVE)
    assert (check.name, check.verdict) == ("resume", "refuted"), check


@pytest.mark.parametrize(
    ("task", "part"),
    [
        ("cancelling", "mixed_precision"),
        ("learning", "clip_before_unscale_for_precision"),
        ("learning_slowly", "coarse_weights_for_precision"),
    ],
)
def test_a_precision_that_trains_worse_is_refuted(bench: Bench, task: str, part: str) -> None:
    claim = bench.prove(task, {part: {}})
    assert (claim.rung, claim.verdict) == (Rung.PARITY, "refuted"), claim
    assert [check.name for check in claim.checks] == ["start", "data", "parity"]
    assert claim.parity is not None
    assert claim.parity.steps >= 100


@pytest.mark.parametrize(
    ("task", "parts", "words"),
    [
        ("plain", {"fused_optimizer": {}}, "across the end of an epoch"),
        ("plain", {"gradient_accumulation": {"steps": 3}}, "across the end of an epoch"),
        ("convolving", {"memory_format": {}}, "across the end of an epoch"),
        ("in_blocks", {"activation_checkpointing": {}}, "same random numbers"),
        ("dropping", {"fused_optimizer": {}}, "the same random numbers, to the bit"),
        ("dropping", {"compile": {"backend": "aot_eager"}}, "same"),
        ("dropping", {"other_stream": {}}, "same distribution, other stream"),
        ("dropping", {"gradient_accumulation": {}}, "same distribution, other stream"),
    ],
)
def test_a_right_change_is_proven(
    bench: Bench, task: str, parts: dict[str, RawPart], words: str
) -> None:
    claim = bench.prove(task, parts)
    assert claim.verdict == "proven", claim
    assert words in claim.checks[-1].why


def test_another_precision_that_trains_as_well_is_proven(bench: Bench) -> None:
    claim = bench.prove("learning", {"mixed_precision": {}, "fused_optimizer": {}})
    assert claim.verdict == "proven", claim
    assert [check.name for check in claim.checks] == ["start", "data", "rounding", "parity"]
    assert claim.parity is not None
    names = [figure.name for figure in claim.parity.figures]
    assert names == ["training loss", "evaluation loss", "accuracy"]
    assert all(len(pair.naive.losses) <= 40 for pair in claim.parity.pairs)
    assert f"{len(claim.parity.pairs)} seeds of {claim.parity.steps} steps" in claim.why()


def test_a_restless_training_is_said_to_be_so_and_supports_no_bitwise_claim(bench: Bench) -> None:
    claim = bench.prove("restless", {"fused_optimizer": {}})
    assert claim.verdict == "proven", claim
    assert "the naive training does not repeat itself to the bit" in claim.why()
    bitwise = bench.prover("restless").prove(NAIVE, Rung.BITWISE)
    assert bitwise.verdict == "not_proven"
    assert "repeat itself" in bitwise.why()
