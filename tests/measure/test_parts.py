"""A whole profile in a real worker, and what becomes of parts that fail."""

from pathlib import Path
from typing import Literal

import pytest

from hasten.errors import HastenError
from hasten.measure import messages
from hasten.measure.lab import Lab
from hasten.measure.parts import measure_parts
from hasten.measure.worker import WorkerFailure
from hasten.records.finding import Place
from hasten.records.measurement import Measurement, Memory, Phases
from hasten.records.profile import (
    Bound,
    Ceilings,
    Launches,
    PeakMemory,
    ProfileParts,
    SyncSite,
)
from hasten.records.record import from_json, to_json

PLANTED = Path(__file__).parents[1] / "tasks" / "planted.py"
STEP = Phases(data_wait_s=0.0, transfer_s=0.0, forward_s=0.1, backward_s=0.0, optimizer_s=0.0)
MEASURED = Measurement(steps=(STEP,), rows=(1,), losses=(0.0,), first_step_s=1.0, memory=Memory())
SITE = SyncSite(
    place=Place(path="train.py", line=3), kind="item", code="loss.item()", per_step=1.0, cost_s=0.1
)
PEAK = PeakMemory(
    peak_bytes=10,
    parameters_bytes=1,
    gradients_bytes=2,
    optimizer_bytes=3,
    activations_bytes=4,
    other_bytes=0,
    largest=(),
)
ANSWERS: dict[type, messages.Reply] = {
    messages.MeasureBounds: messages.BoundsMeasured(
        bounds=(Bound(without="loader", ratio=1.1, low=1.0, high=1.2, how="measured"),)
    ),
    messages.CountWork: messages.WorkCounted(flops={"fp32": 1e9}, moved_bytes=1e6),
    messages.CountLaunches: messages.LaunchesCounted(
        launches=Launches(per_step=9.0, device_s=0.1, step_s=0.1, slowest={})
    ),
    messages.FindSyncs: messages.SyncsFound(sites=(SITE,)),
    messages.MeasurePeak: messages.PeakMeasured(memory=PEAK),
    messages.MeasureCeilings: messages.CeilingsMeasured(
        ceilings=Ceilings(flops_per_s={"fp32": 1e11}, bytes_per_s=1e9, launch_s=1e-6)
    ),
}


class Answering:
    """A worker that answers as it is told, or fails."""

    def __init__(self, *failing: type, kind: Literal["error", "hung"] = "error") -> None:
        self.failing, self.kind = failing, kind
        self.asked: list[type] = []

    def ask(self, request: messages.Request, reply: type) -> messages.Reply:
        self.asked.append(type(request))
        if isinstance(request, self.failing):
            raise WorkerFailure(messages.Failed(kind=self.kind, what="It ended."))
        answer = ANSWERS[type(request)]
        assert isinstance(answer, reply)
        return answer


def _parts(*failing: type) -> ProfileParts:
    worker = Answering(*failing)
    return measure_parts(worker, MEASURED, None, lambda message: None)  # type: ignore[arg-type]


def test_all_parts_come_together() -> None:
    found = _parts()
    assert found.notes == ()
    assert found.work is not None
    assert found.work.share == pytest.approx(0.1)
    assert found.launches is not None
    assert found.ceilings is not None
    assert len(found.bounds) == 1
    assert found.syncs == (SITE,)
    assert found.memory == PEAK
    assert found.trace is None


@pytest.mark.parametrize(
    ("failing", "missing"),
    [
        (messages.MeasureBounds, "bounds"),
        (messages.CountWork, "work"),
        (messages.CountLaunches, "launches"),
        (messages.MeasureCeilings, "ceilings"),
        (messages.FindSyncs, "syncs"),
        (messages.MeasurePeak, "memory"),
    ],
)
def test_a_part_that_fails_is_a_note_and_the_others_are_there(failing: type, missing: str) -> None:
    found = _parts(failing)
    (note,) = found.notes
    assert note.endswith("failed: It ended.")
    assert not getattr(found, missing)
    whole = {"bounds", "work", "launches", "ceilings", "syncs", "memory"} - {missing}
    if missing == "ceilings":
        whole -= {"work"}  # which is told against them
    assert all(getattr(found, name) for name in whole)


def test_a_process_that_was_ended_is_asked_no_more() -> None:
    worker = Answering(messages.CountWork, kind="hung")
    found = measure_parts(worker, MEASURED, None, lambda message: None)  # type: ignore[arg-type]
    assert worker.asked[-1] is messages.CountWork
    assert found.notes == (
        "counting arithmetic failed: It ended.",
        "what comes after that was not measured",
    )
    assert found.syncs == (SITE,), "what came before is there"


def test_blocks_are_timed_before_the_profiler_is_started() -> None:
    worker = Answering()
    measure_parts(worker, MEASURED, None, lambda message: None)  # type: ignore[arg-type]
    assert worker.asked[0] is messages.MeasureBounds
    assert worker.asked.index(messages.CountLaunches) > 0


@pytest.mark.slow
def test_a_profile_of_a_real_task_has_all_its_parts() -> None:
    told: list[str] = []
    with Lab(f"{PLANTED}:small", seed=0) as lab:
        found = lab.profile(tell=told.append)
    assert found.notes == ()
    assert {bound.without for bound in found.bounds} == {"loader", "optimizer"}
    measured = found.measurement
    start = (measured.import_s, measured.build_s, measured.first_batch_s, measured.first_step_s)
    assert all(each > 0 for each in start)
    assert found.work is not None
    assert found.work.flops == 2 * 32 * (2 * 16 * 32 + 3 * 32 * 4)
    assert len(told) == 7
    assert from_json(to_json(found), ProfileParts, where="here") == found


def test_a_task_that_does_not_run_is_an_error() -> None:
    with (
        Lab(f"{PLANTED.with_name('broken.py')}:model_raises", seed=0) as lab,
        pytest.raises(HastenError, match="expected 3 channels"),
    ):
        lab.profile()
