"""Figures of past steps. On a CPU they are there at once; a GPU's come late."""

import gc
import math
import weakref

import pytest
import torch
from torch.optim.lr_scheduler import ExponentialLR

from hasten.records.plan import Plan
from hasten.runtime.run import Run
from hasten.step.eager import EagerStep
from hasten.step.readings import Reading, Readings, learning_rate
from trainings import make_training


def steps_of(readings: Readings, eager: EagerStep, count: int) -> list[float]:
    losses = []
    batch = next(iter(eager.pipeline.loader))
    for _ in range(count):
        rate = learning_rate(eager)
        losses.append(float(eager(batch)))
        readings.take(eager, rate)
    return losses


def make(every: int = 1, slots: int = 4) -> tuple[Readings, EagerStep]:
    eager = EagerStep(make_training("perceptron"))
    return Readings(eager.pipeline.device, every=every, slots=slots), eager


def test_before_the_first_step_nothing_is_known() -> None:
    readings, _ = make()
    assert readings.latest() is None
    assert readings.wait() is None


def test_the_figures_are_those_of_the_last_step() -> None:
    readings, eager = make()
    for steps in range(1, 7):
        (loss,) = steps_of(readings, eager, 1)
        latest = readings.latest()
        assert latest is not None
        assert latest.step == steps
        assert latest.loss == loss
        assert latest.gradient_norm == float(eager.gradient_norm)  # type: ignore[arg-type]
        assert latest.scale is None
        assert latest.learning_rate == 1e-2
    assert readings.latest() == readings.wait() == latest


def test_what_was_not_asked_for_is_overwritten_and_not_mixed_up() -> None:
    """Ten steps in two slots: the newest are right, whatever their place in the ring."""
    readings, eager = make(slots=2)
    losses = steps_of(readings, eager, 10)
    latest = readings.latest()
    assert latest is not None
    assert (latest.step, latest.loss) == (10, losses[-1])


def test_only_every_so_many_steps_are_read() -> None:
    readings, eager = make(every=3)
    losses = steps_of(readings, eager, 2)
    assert readings.latest() is None
    losses += steps_of(readings, eager, 6)
    latest = readings.latest()
    assert latest is not None
    assert (latest.step, latest.loss) == (6, losses[5])


def test_without_a_clip_there_is_no_norm() -> None:
    readings, eager = make()
    eager.pipeline.clip_norm = None
    steps_of(readings, eager, 1)
    latest = readings.latest()
    assert latest is not None
    assert latest.gradient_norm is None


def test_the_scale_of_an_fp16_loss_is_read() -> None:
    readings, eager = make()
    eager.pipeline.scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    steps_of(readings, eager, 1)
    latest = readings.latest()
    assert latest is not None
    assert latest.scale == 64.0


def test_a_learning_rate_on_the_device_is_not_waited_for() -> None:
    readings, eager = make()
    eager.pipeline.optimizers[0].param_groups[0]["lr"] = torch.tensor(0.01)
    steps_of(readings, eager, 1)
    latest = readings.latest()
    assert latest is not None
    assert math.isnan(latest.learning_rate)


def test_the_learning_rate_is_the_one_that_the_step_ran_with() -> None:
    pipeline = make_training("perceptron")
    pipeline.schedulers = [ExponentialLR(pipeline.optimizers[0], 0.5)]
    run = Run(pipeline, Plan(parts={"late_readings": {}}))
    rates = []
    for batch in run.epoch():
        run.step(batch)
        assert run.readings is not None
        latest = run.readings.latest()
        assert latest is not None
        rates.append(latest.learning_rate)
    assert rates == [1e-2, 5e-3, 2.5e-3, 1.25e-3]


@pytest.mark.parametrize("clip", [None, 0.02])
def test_a_loss_may_have_one_dimension(clip: float | None) -> None:
    pipeline = make_training("perceptron")
    plain, pipeline.clip_norm = pipeline.forward, clip
    pipeline.forward = lambda model, batch: plain(model, batch).reshape(1)
    run = Run(pipeline, Plan(parts={"late_readings": {}}))
    loss = run.step(next(iter(run.dataloader)))
    assert run.readings is not None
    latest = run.readings.latest()
    assert latest is not None
    assert latest.loss == loss.item()


def test_applied_again_they_go_on_counting() -> None:
    """The technique before them is dropped after the second step."""
    plan = Plan(parts={"attention": {}, "late_readings": {}})
    run = Run(make_training("perceptron"), plan)
    held, steps = run.readings, []
    for batch in run.epoch():
        run.step(batch)
        assert held is not None
        latest = held.latest()
        steps.append(latest and latest.step)
    assert [each.outcome for each in run.applied] == ["done", "fell_back"]
    assert run.readings is held
    assert steps == [1, 2, 3, 4]


def test_readings_of_a_run_that_is_gone_are_not_kept() -> None:
    run = Run(make_training("perceptron"), Plan(parts={"late_readings": {}}))
    eager = weakref.ref(run.eager)
    run.step(next(iter(run.dataloader)))
    del run
    gc.collect()
    assert eager() is None


def test_a_run_has_readings_while_the_technique_is_applied() -> None:
    run = Run(make_training("perceptron"), Plan(parts={"late_readings": {"every": 2}}))
    assert run.applied[0].why == "read every 2 steps, late"
    losses = [float(run.step(batch)) for batch in run.epoch()]
    assert isinstance(run.readings, Readings)
    latest = run.readings.wait()
    assert isinstance(latest, Reading)
    assert (latest.step, latest.loss) == (4, losses[3])
    assert latest.gradient_norm == pytest.approx(float(run.eager.gradient_norm))  # type: ignore[arg-type]
    run.undo()
    assert run.readings is None


def test_readings_of_a_batch_in_pieces_are_of_the_whole_batch() -> None:
    plan = Plan(parts={"late_readings": {}, "gradient_accumulation": {"steps": 3}})
    run = Run(make_training("perceptron", dropout=False), plan)
    batch = next(iter(run.dataloader))
    loss = float(run.step(batch))
    assert run.readings is not None
    latest = run.readings.latest()
    assert latest is not None
    assert latest.loss == loss
