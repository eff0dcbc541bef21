"""Compiled trainings on their rung, with generated code, and a training in another precision, for
minutes. Run by `make slow-test`."""

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from arms import Form, Yardstick, measure_yardstick, trace
from hasten.measure.lab import Lab
from hasten.records.plan import Plan, RawPart
from hasten.records.verdict import NumericsClaim
from hasten.tune.parity import prove_plan
from hasten.tune.prove import Prover
from trainings import NAMES, make_training

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
HAVE_BLOCKS = ("convolutions", "transformer", "language")
REGIONS = ("whole", "with_loss", "blocks")
BUGS = Path(__file__).parents[1] / "tasks" / "bugs.py"
MODES = ("reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@pytest.fixture(autouse=True)
def _forget_compiled_code() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@functools.cache
def yardstick(training: str, form: Form) -> Yardstick:
    return measure_yardstick(lambda: make_training(training, dropout=False), Plan(), form)


def hold_to_rounding(training: str, form: Form, parts: dict[str, RawPart]) -> None:
    changed = trace(make_training(training, dropout=False), Plan(parts=parts), form)
    assert changed.run is not None
    said = {each.technique: each for each in changed.run.applied}
    assert said["compile"].outcome == "done", said["compile"].why
    assert yardstick(training, form).share(changed) <= 1.0
    changed.run.undo()


@pytest.mark.parametrize("form", ["pieces", "whole"])
@pytest.mark.parametrize("regions", REGIONS)
@pytest.mark.parametrize("training", [name for name in NAMES if name != "recurrent"])
def test_generated_code_stays_within_rounding(training: str, regions: str, form: Form) -> None:
    if regions == "blocks" and training not in HAVE_BLOCKS:
        regions = "whole"  # there are none; the same again costs nothing, it is cached
    hold_to_rounding(training, form, {"compile": {"regions": regions}})


@pytest.mark.parametrize("mode", MODES)
def test_the_other_modes_stay_within_rounding(mode: str) -> None:
    hold_to_rounding("perceptron", "whole", {"compile": {"mode": mode}})


@pytest.mark.parametrize("training", HAVE_BLOCKS)
def test_generated_code_with_checkpointing_and_a_fused_optimizer(training: str) -> None:
    parts: dict[str, RawPart] = {
        "activation_checkpointing": {"keep": "nothing"},
        "compile": {"regions": "with_loss"},
        "fused_optimizer": {},
    }
    hold_to_rounding(training, "whole", parts)


def _prove(task: str, parts: dict[str, RawPart]) -> NumericsClaim:
    with Lab(task, seed=4) as lab:
        described = lab.describe()
        prover = Prover(lab, described.traits, seed=4)
        return prove_plan(prover, lab, Plan(parts=parts), described.rungs, 600, lambda words: None)


@pytest.mark.parametrize("task", ["plain", "dropping", "dropping_by_function"])
def test_generated_code_is_proven_with_its_own_stream_of_dropout(task: str) -> None:
    claim = _prove(f"{BUGS}:{task}", {"compile": {}})
    assert claim.verdict == "proven", claim
    if task != "plain":
        assert "same distribution, other stream" in claim.checks[-1].why


def test_bf16_trains_as_well_on_a_gallery_workload() -> None:
    claim = _prove("gallery:bloom", {"mixed_precision": {}})
    assert claim.verdict == "proven", claim
    assert claim.checks[-1].name == "parity"
