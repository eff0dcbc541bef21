"""Real worker processes: they cannot hang us, mix with us, or outlive us."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from endings import still_alive
from hasten.measure import messages
from hasten.measure.lab import Lab
from hasten.measure.nursery import Nursery
from hasten.measure.worker import Worker, WorkerFailure
from hasten.records.plan import NAIVE

PLANTED = Path(__file__).parents[1] / "tasks" / "planted.py"
BROKEN = PLANTED.with_name("broken.py")


@pytest.fixture(params=["forked", "anew"])
def worker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Worker]:
    if request.param == "anew":
        with Worker(tmp_path / "log") as worker:
            yield worker
    else:
        nursery = Nursery(tmp_path / "nursery.log")
        with Worker(tmp_path / "log", nursery) as worker:
            yield worker
        nursery.close()


def _describe(file: Path, task: str) -> messages.Describe:
    return messages.Describe(task=f"{file}:{task}", seed=0)


def _wait_until(condition, limit_s: float = 20.0) -> bool:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + limit_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(condition())


def test_a_task_that_prints_does_not_disturb_the_protocol(worker: Worker) -> None:
    described = worker.ask(_describe(BROKEN, "prints_much"), messages.Described)
    assert described.traits.data.kind == "tensors"
    assert not worker.has_failed
    worker.close()
    assert "xxx" in worker.log_tail()


def test_a_task_that_kills_its_process_is_said_with_the_signal(worker: Worker) -> None:
    with pytest.raises(WorkerFailure, match="signal 9") as caught:
        worker.ask(_describe(BROKEN, "kills_itself"), messages.Described)
    assert caught.value.failed.kind == "crashed"
    assert worker.has_failed


def test_a_task_that_ends_its_process_is_said_with_the_exit_code(worker: Worker) -> None:
    with pytest.raises(WorkerFailure, match="exit code 3") as caught:
        worker.ask(_describe(BROKEN, "ends_itself"), messages.Described)
    assert caught.value.failed.what == (
        "The training process ended unexpectedly (exit code 3), while "
        f"{BROKEN}:ends_itself was built and run for one step."
    )


@pytest.mark.parametrize(
    ("task", "raised"),
    [("interrupts_itself", "KeyboardInterrupt"), ("exits_in_a_step", "SystemExit: 0")],
)
def test_a_task_that_wants_to_end_its_process_is_said_with_its_own_lines(
    worker: Worker, task: str, raised: str
) -> None:
    with pytest.raises(WorkerFailure) as caught:
        worker.ask(_describe(BROKEN, task), messages.Described)
    failed = caught.value.failed
    assert failed.what == f"The training raised: {raised}."
    assert failed.kind == "raised", "the process lives on"
    assert worker.has_failed
    assert "broken.py" in failed.detail
    assert "hasten/measure" not in failed.detail
    worker.ask(_describe(PLANTED, "small"), messages.Described)


def test_a_process_that_ends_later_is_said_with_what_it_did_then(worker: Worker) -> None:
    start = messages.Start(task=f"{PLANTED}:small", plan=NAIVE, seed=0)
    worker.ask(start, messages.Started)
    os.kill(worker.pid, signal.SIGSEGV)
    with pytest.raises(WorkerFailure, match=r"\(signal 11\), while .*:small ran its first steps\."):
        worker.ask(messages.Warm(steps=1), messages.Warmed)


def test_a_task_that_hangs_is_ended_from_outside(worker: Worker) -> None:
    process = psutil.Process(worker.pid)
    worker.ask(_describe(PLANTED, "small"), messages.Described)
    with pytest.raises(WorkerFailure, match="no answer in 2 s") as caught:
        worker.ask(_describe(BROKEN, "hangs"), messages.Described, limit_s=2)
    assert "broken.py" in caught.value.failed.detail
    assert not process.is_running()


def test_after_a_failed_request_the_worker_still_answers(worker: Worker) -> None:
    with pytest.raises(WorkerFailure, match="expected 3 channels") as caught:
        worker.ask(_describe(BROKEN, "model_raises"), messages.Described)
    assert "broken.py" in caught.value.failed.detail
    assert "hasten/runtime" not in caught.value.failed.detail
    assert (
        worker.ask(_describe(PLANTED, "small"), messages.Described).traits.model.parameters == 676
    )


def test_of_evaluation_data_no_more_than_a_first_batch_is_asked_for(worker: Worker) -> None:
    with pytest.raises(WorkerFailure, match="The evaluation data gives no batch"):
        worker.ask(_describe(BROKEN, "evaluates_on_an_empty_stream"), messages.Described)
    worker.ask(_describe(BROKEN, "evaluates_on_an_endless_stream"), messages.Described)


def test_closing_twice_is_fine(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "log")
    worker.close()
    worker.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(worker._replies)


def test_a_paused_worker_and_its_loader_workers_do_not_run() -> None:
    with Lab(f"{PLANTED}:with_loader_workers", seed=0) as lab:
        (arm,) = lab.arms(NAIVE)
        group = psutil.Process(arm.worker._process.pid)
        everyone = [group, *group.children(recursive=True)]
        assert len(everyone) > 2, "the loader's workers are up"
        assert _wait_until(lambda: {each.status() for each in everyone} == {"stopped"})
        block = arm.worker.ask(messages.TimeBlock(steps=4), messages.Block)
        assert block.rows > 0
    assert not still_alive(everyone)


@pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel")
def test_a_worker_dies_with_a_killed_parent_even_while_paused(tmp_path: Path) -> None:
    script = f"""
import sys, time
from hasten.measure.lab import Lab
from hasten.records.plan import NAIVE
with Lab({str(PLANTED)!r} + ":with_loader_workers", seed=0) as lab:
    (arm,) = lab.arms(NAIVE)
    arm.worker.resume()
    time.sleep(1)  # a loader's worker that is stopped as it is forked has not asked the kernel yet
    arm.worker.pause()
    print("ready", flush=True)
    time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"ready\n"
    children = psutil.Process(parent.pid).children(recursive=True)
    assert len(children) >= 3
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert not still_alive(children)
