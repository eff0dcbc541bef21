"""Trainings in processes of their own, which can be killed."""

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from hasten.records.plan import Plan
from hasten.records.training import CheckpointEvent
from hasten.train.fit import fit

TASKS = Path(__file__).parents[1] / "tasks" / "long_training.py"
EVERYTHING = Plan(
    parts={
        "mixed_precision": {"dtype": "fp16"},  # brings a scaler
        "gradient_accumulation": {"steps": 2},
        "fused_optimizer": {},
    }
)


def task(name: str = "make_task") -> str:
    return f"{TASKS}:{name}"


class KilledAt:
    """A sink that ends its own process without a word, once a step is done; with ``saved`` not
    before there is a checkpoint."""

    def __init__(self, step: int, number: int = signal.SIGKILL, *, saved: bool = False) -> None:
        self._step, self._number, self._waits = step, number, saved

    def started(self, *_: object) -> None: ...
    def ended(self, *_: object) -> None: ...

    def event(self, event: object) -> None:
        self._waits = self._waits and not isinstance(event, CheckpointEvent)

    def stepped(self, step: int) -> None:
        if step < self._step:
            return
        if self._waits:
            time.sleep(0.5)  # on a busy machine a checkpoint can take longer than all other steps
            return
        self._step = sys.maxsize
        os.kill(os.getpid(), self._number)


def start(function: Callable[..., None], *arguments: Any, **options: Any) -> BaseProcess:
    """Forked from a server that has torch loaded, so that it begins at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["hasten.train.fit"])
    process = context.Process(target=_run, args=(function, arguments, options))
    process.start()
    return process


def _run(function: Callable[..., None], arguments: Any, options: Any) -> None:
    multiprocessing.set_start_method("fork", force=True)  # for a loader's workers, as usual
    function(*arguments, **options)


def train(name: str, folder: Path, plan: Plan = EVERYTHING, **options: Any) -> None:
    fit(task(name), plan, checkpoint_dir=folder, **options)


def run(function: Callable[..., None], *arguments: Any, **options: Any) -> int:
    """The exit code: negative where a signal ended it."""
    process = start(function, *arguments, **options)
    process.join(120)
    code = process.exitcode
    process.kill()
    assert code is not None, "it hangs"
    return code


def bits_at(folder: Path, step: int) -> dict[str, Any]:
    """All that a checkpoint holds: weights, optimizer, random generators, numbers and words."""
    path = folder / f"step-{step:08d}"
    weights = load_file(path / "model.safetensors")
    tensors = {**weights, **load_file(path / "state.safetensors")}
    held: dict[str, Any] = {name: each.clone() for name, each in tensors.items()}  # off the file
    return held | {"all else": json.loads((path / "state.json").read_text())["tree"]}


def same_bits(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)


def _same(one: Any, other: Any) -> bool:
    return torch.equal(one, other) if isinstance(one, Tensor) else bool(one == other)
