"""Phases add up to the step by how they are made, and measuring them changes no training."""

import itertools
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hasten.data.loaders.overlap import OverlappedLoader
from hasten.measure import blocks
from hasten.measure import phases as module
from hasten.measure.blocks import batches_ahead, has_workers, prefetched, time_block
from hasten.measure.phases import measure_phases, phases_of
from hasten.records.measurement import Phases
from hasten.records.plan import NAIVE, Plan
from hasten.runtime.run import Run
from hasten.step.eager import EagerStep
from hasten.task.batch import rows_in
from hasten.task.seed import seed_everything
from trainings import NAMES, make_training

UNMEASURED = 1 + module.WARM
WHOLE_STEP = ("data_wait_s", "host_s", "transfer_s", "optimizer_s", "forward_s", "backward_s")
WHOLE_STEP = (*WHOLE_STEP, "optimizer_s", "host_s")


class CountingMarks:
    """A clock that is one second later at each mark."""

    def __init__(self) -> None:
        self.count = 0

    def mark(self) -> None:
        self.count += 1

    def spans(self) -> list[float]:
        return [1.0] * (self.count - 1)


def _run(name: str = "perceptron", plan: Plan = NAIVE) -> Run:
    run = Run(make_training(name), plan)
    seed_everything(3)
    return run


def _measured(monkeypatch: pytest.MonkeyPatch, run: Run, steps: int) -> tuple[Phases, ...]:
    monkeypatch.setattr(module, "marks_for", lambda device, expected: CountingMarks())
    return measure_phases(run, run.endless(), steps).steps


def test_each_part_of_a_step_is_charged_up_to_the_next_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = _measured(monkeypatch, _run(), 5)
    expected = Phases(
        data_wait_s=1.0,
        transfer_s=1.0,
        forward_s=1.0,
        backward_s=1.0,
        optimizer_s=2.0,  # emptying the gradients, and the update
        host_s=2.0,  # before the step's own work and after it
    )
    assert steps == (expected,) * 5
    assert all(step.total_s() == module.MARKS for step in steps)


def test_pieces_of_a_batch_are_charged_to_the_same_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(parts={"gradient_accumulation": {"steps": 2}})
    step = _measured(monkeypatch, _run("perceptron", plan), 5)[0]
    assert (step.forward_s, step.backward_s) == (2.0, 2.0)
    assert step.optimizer_s == 2.0


def test_a_step_without_parts_is_one_graph() -> None:
    names = ("data_wait_s", "host_s", *WHOLE_STEP, "data_wait_s")
    replayed, whole = phases_of(names, [1.0, 5.0, *[1.0] * len(WHOLE_STEP)])
    assert (replayed.graph_s, replayed.host_s, replayed.total_s()) == (5.0, 0.0, 6.0)
    assert (whole.graph_s, whole.host_s, whole.total_s()) == (0.0, 2.0, 8.0)


@given(st.lists(st.integers(0, 1000), min_size=8, max_size=8), st.integers(1, 4))
def test_the_phases_add_up_to_the_time_from_the_first_mark_to_the_last(
    spans: list[int], steps: int
) -> None:
    found = phases_of([*WHOLE_STEP * steps, "data_wait_s"], [float(each) for each in spans * steps])
    assert [step.total_s() for step in found] == [float(sum(spans))] * steps


@pytest.mark.parametrize("name", NAMES)
def test_measuring_trains_as_plain_steps_do_to_the_bit(name: str) -> None:
    phased = _run(name)
    measurement = measure_phases(phased, phased.endless(), steps=6)
    plain = _run(name)
    source = plain.endless()
    losses = [float(plain.step(next(source))) for _ in range(UNMEASURED + 6)]
    assert list(measurement.losses) == losses[UNMEASURED:]
    assert len(measurement.steps) == len(measurement.rows) == 6
    for one, other in zip(phased.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_afterwards_the_step_is_the_plain_one_again() -> None:
    run = _run()
    before = dict(vars(run.eager))
    measure_phases(run, run.endless(), steps=5)
    assert vars(run.eager).keys() == before.keys()
    assert run.eager.forward.__func__ is EagerStep.forward


def test_after_a_step_that_raised_too() -> None:
    run = _run()
    source = run.endless()
    measure_phases(run, source, steps=5)

    def raising(*arguments: object) -> None:
        raise ValueError("the model's own")

    run.pipeline.forward = raising
    batch = next(source)
    with pytest.raises(ValueError, match="own"), module.marking(run, lambda phase: None):
        run.step(batch)
    assert "forward" not in vars(run.eager)


def test_the_start_is_told_in_its_parts() -> None:
    run = _run()
    measurement = measure_phases(run, run.endless(), steps=5)
    assert measurement.first_batch_s > 0
    assert measurement.first_step_s > 0
    assert measurement.import_s == measurement.build_s == 0.0, "the worker knows those"


def test_what_workers_hold_ready_is_counted() -> None:
    data = torch.utils.data.TensorDataset(torch.zeros(4))
    loaders = torch.utils.data.DataLoader
    assert prefetched(loaders(data)) == 0
    assert prefetched(loaders(data, num_workers=2)) == 4
    assert prefetched(loaders(data, num_workers=2, prefetch_factor=5)) == 10
    assert prefetched([1, 2]) == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_so_is_what_a_transfer_takes_ahead_of_them(workers: int) -> None:
    loader = torch.utils.data.DataLoader(range(4), num_workers=workers)
    overlapped = OverlappedLoader.__new__(OverlappedLoader)  # its stream needs a device
    overlapped.loader = loader
    assert prefetched(overlapped) == 2 * workers + 1
    assert has_workers(overlapped) == has_workers(loader) == (workers > 0)


def test_a_block_begins_behind_the_steps_that_use_up_what_is_ready() -> None:
    run = _run()
    given: list[int] = []
    source = ((given.append(1), batch)[1] for batch in run.endless())
    _, rows = time_block(run, source, 3, unmeasured=2)
    assert len(given) == 5
    assert rows == sum(rows_in(batch) for batch in itertools.islice(_run().endless(), 2, 5))


HELD = 4
ASKED = 2 * HELD + blocks.WATCHED_STEPS


@pytest.mark.parametrize(
    ("step_s", "batch_s", "ahead", "taken"),
    [
        (0.05, 0.04, 0, ASKED),  # in a training it holds as many ready
        (0.05, 0.06, HELD, ASKED),
        (0.05, 0.2, HELD, ASKED),
        (0.2, 0.3, 0, 0),  # a pause is too short for it
        (0.004, 0.001, HELD, 0),  # to use them up takes less time than to ask
    ],
)
def test_a_loader_that_keeps_up_gets_nothing_ahead(
    step_s: float, batch_s: float, ahead: int, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loader that makes a batch in so many seconds, and begins with all that it holds ready."""
    run, now, made, stepped = _run(), 0.0, 0.0, list[object]()
    given: list[object] = []

    def batches() -> Iterator[object]:
        nonlocal now, made
        for number, batch in enumerate(run.endless()):
            if number >= HELD:  # it made none while its stock was full
                made = max(made, now - HELD * batch_s) + batch_s
                now = max(now, made)
            given.append(batch)
            yield batch

    def step(batch: object) -> None:
        nonlocal now
        now += step_s
        stepped.append(batch)

    monkeypatch.setattr(blocks.time, "perf_counter", lambda: now)
    monkeypatch.setattr(blocks, "prefetched", lambda loader: HELD)
    monkeypatch.setattr(run, "step", step)
    assert batches_ahead(run, batches(), step_s) == ahead
    assert len(given) == taken
    assert all(one is other for one, other in zip(given, stepped, strict=True)), "each, in order"
