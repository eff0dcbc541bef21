"""Signals and faults: the step is finished, what was saved is whole, nothing is lost."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import processes
import pytest
import torch
from processes import KilledAt, bits_at, run, same_bits, task
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from hasten.checkpoint.store import Store
from hasten.errors import HastenError
from hasten.records.plan import NAIVE, Plan
from hasten.task.load import load_factory
from hasten.task.task import Task
from hasten.train import loop
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


def while_an_epoch_begins(folder: Path) -> None:
    """It has drawn the order of its batches, and none of them was trained on."""

    class Epoch(loop.Epoch):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            if self._run.epochs_begun == 3:
                os.kill(os.getpid(), signal.SIGTERM)

    loop.Epoch = Epoch  # type: ignore[misc]
    processes.train("make_task", folder, steps=STEPS)


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


@pytest.mark.parametrize(
    "moment",
    [in_a_step, again_while_it_saves, in_a_save, while_an_epoch_begins, to_all_processes],
)
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
        stop.nothing_to_lose = False
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.signal == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


BUILDS = """
import os

def make():
    os.kill(os.getpid(), {number})
    raise AssertionError("it went on")
"""
ENDINGS = {signal.SIGINT: 130, signal.SIGTERM: 143}


def ending_as_a_shell_says(train: Callable[[], object]) -> None:
    try:
        train()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def built_in(folder: Path) -> None:
    ending_as_a_shell_says(lambda: fit(f"{folder}/builds.py:make", checkpoint_dir=folder / "run"))


@pytest.mark.parametrize("number", ENDINGS)
def test_a_signal_while_the_task_is_built_leaves_at_once(number: int, tmp_path: Path) -> None:
    (tmp_path / "builds.py").write_text(BUILDS.format(number=int(number)))
    assert run(built_in, tmp_path) == ENDINGS[number]
    assert not list(tmp_path.glob("run/step-*"))
    command = [sys.executable, "-m", "hasten", "train", "builds.py:make"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == ENDINGS[number]
    assert ended.stderr.strip() in ("interrupted", "terminated")


class Signalling(Dataset[tuple[Tensor, Tensor]]):
    """Sends a signal to its process when it is asked so often, and counts on."""

    def __init__(self, number: int = 0, at: int = -1) -> None:
        self.number, self.at, self.asked = number, at, 0

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        self.asked += 1
        if self.asked == self.at:
            os.kill(os.getpid(), self.number)
        return torch.full((4,), float(index)), torch.tensor(index % 3)


def signalled_task(data: Signalling) -> Task:
    """By a sampler of its own, so that batches are loaded again to get behind them."""
    torch.manual_seed(0)
    return Task(
        model=nn.Linear(4, 3),
        data=DataLoader(data, batch_sampler=[list(range(i, i + 4)) for i in range(0, 40, 4)]),
        loss=F.cross_entropy,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
    )


def replayed_in(folder: Path, number: int, at: int) -> None:
    data = Signalling(number, at)
    try:
        ending_as_a_shell_says(
            lambda: fit(signalled_task(data), steps=10, checkpoint_dir=folder, resume=True)
        )
    finally:
        (folder / "asked").write_text(str(data.asked))


@pytest.mark.parametrize("number", ENDINGS)
def test_a_signal_while_batches_are_loaded_again_leaves_at_once(
    number: int, tmp_path: Path
) -> None:
    fit(signalled_task(Signalling()), steps=8, checkpoint_dir=tmp_path)
    before = bits_at(tmp_path, 8), (tmp_path / "events.jsonl").read_bytes()
    assert run(replayed_in, tmp_path, number, at=20) == ENDINGS[number]
    assert (tmp_path / "asked").read_text() == "20"
    assert same_bits(bits_at(tmp_path, 8), before[0])
    assert (tmp_path / "events.jsonl").read_bytes() == before[1]
    assert Store(tmp_path).steps() == [8]


def test_a_signal_before_the_first_batch_has_come_leaves_at_once(tmp_path: Path) -> None:
    data = Signalling(signal.SIGINT, 3)
    with pytest.raises(KeyboardInterrupt):
        fit(signalled_task(data), steps=8, checkpoint_dir=tmp_path)
    assert (data.asked, Store(tmp_path).steps()) == (3, [])


def test_a_handler_that_returns_is_called_at_once_and_training_ends_soon() -> None:
    data, called = Signalling(signal.SIGTERM, 3), []
    before = signal.signal(signal.SIGTERM, lambda number, frame: called.append(data.asked))
    try:
        summary = fit(signalled_task(data), steps=8)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert called == [3]  # once
    assert (summary.outcome, summary.signal) == ("stopped", signal.SIGTERM)
    assert summary.step == 1  # of the batch that was being loaded


def sleep(begun: Any) -> None:
    begun.set()
    time.sleep(60)


@pytest.mark.parametrize("nothing_to_lose", [True, False])
def test_a_process_that_the_program_forks_can_be_terminated(nothing_to_lose: bool) -> None:
    with StopRequest() as stop:
        stop.nothing_to_lose = nothing_to_lose
        fork = multiprocessing.get_context("fork")
        begun = fork.Event()
        child = fork.Process(target=sleep, args=(begun,))
        child.start()
        assert begun.wait(60)  # what comes earlier is lost to Python
        child.terminate()
        child.join(30)
        ended = child.exitcode
        child.kill()
    assert ended == -signal.SIGTERM
    assert stop.signal is None


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


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("make_task_that_leaves", "raised after step 9: SystemExit: 0."),
        ("make_task_that_leaves_its_evaluation", "raised in the evaluation after step"),
        ("make_task_that_leaves_its_optimizer", "cannot be trained: SystemExit: 0."),
    ],
)
def test_a_task_that_ends_the_program_is_no_training_that_is_done(name: str, what: str) -> None:
    with pytest.raises(HastenError) as error:
        fit(task(name), NAIVE, epochs=5)
    assert f"{task(name)} {what}" in error.value.what


def test_a_program_ends_where_its_own_code_says_so() -> None:
    with pytest.raises(SystemExit):
        fit(load_factory(task("make_task_that_leaves"))(), epochs=5)


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
