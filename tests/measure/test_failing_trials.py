"""Trials that die, hang, compile for ever or eat all memory: a row each, and the search goes on."""

import re
import time
from pathlib import Path

import psutil
import pytest
import torch

from hasten.measure.lab import Lab
from hasten.records.plan import NAIVE, Rung
from hasten.records.trial import Offer, Trial
from hasten.tune import search as searching
from hasten.tune.prove import Prover
from hasten.tune.search import Search
from specimens import FINDING

FAULTY = Path(__file__).parents[1] / "tasks" / "faulty.py"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """How the harmless trial is decided is of no matter here."""
    monkeypatch.setattr(searching, "LOOKS_S", (0.5, 1.0))


def _offer(technique: str) -> Offer:
    return Offer(
        technique=technique,
        rung=Rung.BITWISE,
        answers=(FINDING.code,),
        parts=({},),
        changes_data=False,
        slow_to_prepare=False,
        refusal=None,
    )


def _search(*techniques: str) -> list[Trial]:
    """Tries each, then a harmless one; nothing that was started may be left."""
    before = set(psutil.Process().children(recursive=True))
    offers = [_offer(each) for each in (*techniques, "harmless")]
    with Lab(f"{FAULTY}:small", seed=0) as lab:
        search = Search(
            lab,
            Prover(lab, lab.describe().traits, seed=0),
            offers,
            {each.technique: each.rung for each in offers},
            noise_floor=1.01,
            deadline=time.monotonic() + 200,
            diagnose=lambda plan: pytest.fail(f"{plan} was kept"),
            note=lambda trial: None,
            known={},
        )
        search.run([FINDING], lambda words: None)
    assert search.plan == NAIVE
    assert set(psutil.Process().children(recursive=True)) <= before
    return search.trials


ON_A_DEVICE = (
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
)


@pytest.mark.parametrize(
    "technique",
    [
        "eats_memory_at_once",
        "eats_memory_later",
        pytest.param("eats_device_memory_at_once", marks=ON_A_DEVICE),
        pytest.param("eats_device_memory_later", marks=ON_A_DEVICE),
    ],
)
def test_a_trial_that_runs_out_of_memory_is_said_to_and_is_never_chosen(technique: str) -> None:
    trial, harmless = _search(technique)
    assert trial.outcome == "out_of_memory", trial
    assert re.search("allocate memory|out of memory", trial.why), trial.why
    assert trial.comparison is None
    assert harmless.outcome in ("not_faster", "no_verdict")


def test_a_trial_killed_by_the_kernel_is_a_row_with_the_signal() -> None:
    trial, harmless = _search("killed")
    assert trial.outcome == "failed"
    assert "signal 9" in trial.why
    assert trial.comparison is None, "nothing that was measured before is taken for its own"
    assert harmless.outcome in ("not_faster", "no_verdict")


@pytest.mark.parametrize("technique", ["compiles_for_ever", "hangs_with_the_lock"])
def test_what_does_not_come_back_is_ended_and_says_where_it_stood(
    technique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = iter([5.0])
    monkeypatch.setattr(Search, "_warm_limit_s", lambda self, candidate: next(limits, 200.0))
    trial, harmless = _search(technique)
    assert trial.outcome == "failed"
    assert "gave no answer" in trial.why
    assert "faulty.py" in trial.detail
    assert f"in {technique}" in trial.detail
    assert harmless.outcome in ("not_faster", "no_verdict")
