"""Proofs on a CUDA device: captured and compiled steps with dropout, and other precisions."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec
import pytest
import torch

from hasten.measure import messages, numerics
from hasten.measure.lab import Lab
from hasten.records.plan import Plan, RawPart, Rung
from hasten.records.verdict import NumericsClaim
from hasten.runtime.run import Run
from hasten.task.seed import seed_everything
from hasten.tune.parity import prove_plan
from hasten.tune.prove import Prover
from trainings import make_training

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


def test_a_trace_says_the_same_wherever_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    def traced(role: Literal["baseline", "candidate"]) -> messages.Reply:
        seed_everything(0)
        run = Run(make_training("perceptron", device="cuda"))
        asked = messages.Trace(
            path=str(tmp_path / "trace"), role=role, rung=Rung.ROUNDING, reduction="mean"
        )
        return numerics.trace(run, asked)

    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    torch.use_deterministic_algorithms(True, warn_only=True)
    request.addfinalizer(lambda: torch.use_deterministic_algorithms(False))
    on_device = traced("baseline"), traced("candidate")
    monkeypatch.setattr(numerics, "free_bytes", lambda device: 0)
    on_host = traced("baseline"), traced("candidate")
    one, other = (msgspec.to_builtins(each) for each in (on_device, on_host))
    assert numbers_of(one) == pytest.approx(numbers_of(other), rel=1e-6)
    assert len(numbers_of(one)) > 100


def numbers_of(part: object) -> list[float]:
    parts = part.values() if isinstance(part, dict) else part
    if isinstance(parts, float):
        return [parts]
    if isinstance(parts, str) or not isinstance(parts, Iterable):
        return []
    return [number for each in parts for number in numbers_of(each)]
