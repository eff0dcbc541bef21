"""Proofs on a CUDA device: captured and compiled steps with dropout, and other precisions."""

from pathlib import Path

import pytest
import torch

from hasten.measure.lab import Lab
from hasten.records.plan import Plan, RawPart
from hasten.records.verdict import NumericsClaim
from hasten.tune.parity import prove_plan
from hasten.tune.prove import Prover

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
BUGS = Path(__file__).parents[1] / "tasks" / "bugs.py"


def _prove(task: str, parts: dict[str, RawPart]) -> NumericsClaim:
    with Lab(task, seed=4) as lab:
        described = lab.describe()
        prover = Prover(lab, described.traits, seed=4)
        return prove_plan(prover, lab, Plan(parts=parts), described.rungs, 300, lambda words: None)


@pytest.mark.parametrize(
    ("task", "parts"),
    [
        ("plain", {"whole_step_graph": {}}),
        ("dropping", {"whole_step_graph": {}}),
        ("dropping", {"compile": {}, "fused_optimizer": {}, "whole_step_graph": {}}),
        ("dropping_by_function", {"compile": {}}),
        ("learning", {"mixed_precision": {}}),
        ("learning", {"mixed_precision": {"dtype": "fp16"}}),
        ("learning", {"matmul_precision": {}}),
    ],
)
def test_a_right_change_is_proven(task: str, parts: dict[str, RawPart]) -> None:
    claim = _prove(f"{BUGS}:{task}", parts)
    assert claim.verdict == "proven", claim


@pytest.mark.parametrize(
    ("task", "parts", "check"),
    [
        ("dropping", {"same_mask": {}}, "randomness"),
        ("dropping", {"not_rescaled": {}}, "randomness"),
        ("cancelling", {"mixed_precision": {}}, "parity"),
        ("learning", {"clip_before_unscale_for_precision": {}}, "parity"),
    ],
)
def test_a_planted_bug_is_refuted(task: str, parts: dict[str, RawPart], check: str) -> None:
    claim = _prove(f"{BUGS}:{task}", parts)
    assert (claim.verdict, claim.checks[-1].name) == ("refuted", check), claim
