"""Signals and faults: the step is finished, what was saved is whole, nothing is lost."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import processes
import pytest
import torch
from processes import KilledAt, bits_at, run, same_bits, task

from hasten.checkpoint.store import Store
from hasten.errors import HastenError
from hasten.records.plan import NAIVE, Plan
from hasten.train.fit import fit
from hasten.train.signals import StopRequest

STEPS = 60


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    assert run(processes.train, "make_task", folder, steps=STEPS) == 0
    return folder


def in_a_step(folder: Path) -> None:
    processes.train("make_task", folder, steps=STEPS, sinks=[KilledAt(31, signal.SIGTERM)])


class SignalsWhileItSaves(KilledAt):
    """More of them, from the thread that writes the last checkpoint."""

    def stepped(self, step: int) -> None:
        if step != 31:
            return
        sync = os.fsync

        def sync_and_signal(descriptor: int) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            sync(descriptor)

        os.fsync = sync_and_signal
        os.kill(os.getpid(), signal.SIGTERM)


def again_while_it_saves(folder: Path) -> None:
    sinks = [SignalsWhileItSaves(31)]
    processes.train("make_task", folder, steps=STEPS, sinks=sinks)


def in_a_save(folder: Path) -> None:
    """Of a checkpoint in the midst of training."""
    sync, calls = os.fsync, iter(range(1000))

    def sync_and_signal(descriptor: int) -> None:
        if next(calls) == 6:  # the folder itself was made by the first
            os.kill(os.getpid(), signal.SIGTERM)
        sync(descriptor)

    os.fsync = sync_and_signal
    processes.train("make_task", folder, steps=STEPS, checkpoint_every=5)


def in_a_compile(folder: Path) -> None:
    def backend(graph: Any, inputs: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return graph.forward

    torch._dynamo.list_backends()  # knows them all from now on
    torch._dynamo.backends.registry._COMPILER_FNS["eager"] = backend
    plan = Plan(parts={"compile": {"backend": "eager"}})
    processes.train("make_task", folder, plan, steps=STEPS)


def to_all_processes(folder: Path) -> None:
    """As job managers do: the loader's workers get it too, and die."""
    os.setsid()

    class Terminates(KilledAt):
        def stepped(self, step: int) -> None:
            if step == 31:
                os.killpg(0, signal.SIGTERM)

    processes.train("make_task", folder, steps=STEPS, sinks=[Terminates(31)])


@pytest.mark.parametrize("moment", [in_a_step, again_while_it_saves, in_a_save, to_all_processes])
def test_sigterm_saves_once_at_the_end_of_a_step_and_leaves(
    moment: Callable[[Path], None], uninterrupted: Path, tmp_path: Path
) -> None:
    assert run(moment, tmp_path) == 143
    stopped = Store(tmp_path).steps()[-1]
    assert 0 < stopped < STEPS
    assert len(list(tmp_path.glob("step-*"))) == len(Store(tmp_path).steps())  # nothing half done
    assert run(processes.train, "make_task", tmp_path, steps=STEPS, resume=True) == 0
    assert same_bits(bits_at(tmp_path, STEPS), bits_at(uninterrupted, STEPS))


def test_sigterm_in_a_compile_saves_after_the_step_that_compiled(tmp_path: Path) -> None:
    assert run(in_a_compile, tmp_path) == 143
    assert Store(tmp_path).steps() == [1]


def interrupt_all(folder: Path) -> None:
    """As Ctrl-C in a terminal does: the loader's workers get it too."""
    os.setsid()

    class Interrupts(KilledAt):
        def stepped(self, step: int) -> None:
            if step == 31:
                os.killpg(0, signal.SIGINT)

    try:
        processes.train("make_task", folder, steps=STEPS, sinks=[Interrupts(31)])
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def test_ctrl_c_saves_though_it_ends_the_workers(uninterrupted: Path, tmp_path: Path) -> None:
    assert run(interrupt_all, tmp_path) == 130
    assert Store(tmp_path).steps() == [31]
    assert run(processes.train, "make_task", tmp_path, steps=STEPS, resume=True) == 0
    assert same_bits(bits_at(tmp_path, STEPS), bits_at(uninterrupted, STEPS))


def test_handlers_of_the_program_are_called_and_kept(tmp_path: Path) -> None:
    called: list[tuple[int, list[int]]] = []

    def handler(number: int, frame: object) -> None:
        called.append((number, Store(tmp_path).steps()))

    before = signal.signal(signal.SIGTERM, handler)
    try:
        summary = fit(
            task("make_task_without_workers"),
            steps=STEPS,
            checkpoint_dir=tmp_path,
            sinks=[KilledAt(3, signal.SIGTERM)],
        )
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)
    assert called == [(signal.SIGTERM, [3])]  # once, when all was safe
    assert (summary.outcome, summary.signal, summary.step) == ("stopped", signal.SIGTERM, 3)
    assert summary.why == "SIGTERM came after step 3"


def test_a_second_ctrl_c_interrupts_at_once() -> None:
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.signal == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_signals_that_are_ignored_stay_so() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signal is None
        stop.leave()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_it_trains_in_a_thread_too_where_python_has_no_handlers() -> None:
    found: list[int] = []

    def train() -> None:
        found.append(fit(task("make_task_without_workers"), steps=2).step)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert found == [2]


def test_what_the_task_raises_is_told_with_what_is_left(tmp_path: Path) -> None:
    name = task("make_task_that_fails")
    with pytest.raises(HastenError) as error:
        fit(name, NAIVE, steps=STEPS, checkpoint_dir=tmp_path, checkpoint_every=4)
    assert error.value.what == f"{name} raised after step 9: ArithmeticError: the tenth."
    last = tmp_path / f"step-{Store(tmp_path).steps()[-1]:08d}"
    assert error.value.fix == f"Mend that, and go on from {last} by --resume."
    assert "long_training.py" in error.value.detail
    assert "hasten/train" not in error.value.detail


def test_an_operation_that_prevents_determinism_is_named() -> None:
    with pytest.raises(HastenError) as error:
        fit(task("make_task_that_scatters"), steps=2, deterministic=True)
    assert "put_" in error.value.what
    assert "long_training.py" in error.value.detail
    assert not torch.are_deterministic_algorithms_enabled()
    assert fit(task("make_task_that_scatters"), steps=2).step == 2


@pytest.mark.parametrize("name", ["make_task", "make_noisy_task"])
def test_two_deterministic_runs_are_equal_to_the_bit(name: str, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        assert run(processes.train, name, folder, steps=30, deterministic=True) == 0
    assert same_bits(bits_at(one, 30), bits_at(other, 30))


def test_random_items_in_workers_are_loaded_again_and_it_is_said(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    name = task("make_noisy_task")
    fit(name, steps=40, checkpoint_dir=whole)
    fit(name, steps=33, checkpoint_dir=parts)
    summary = fit(name, steps=40, checkpoint_dir=parts, resume=True)
    assert summary.resumed_from == 33
    assert summary.notes == (
        "7 batches were loaded again: its items may draw random numbers in workers",
    )
    assert same_bits(bits_at(whole, 40), bits_at(parts, 40))
