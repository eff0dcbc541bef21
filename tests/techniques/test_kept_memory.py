"""What the C library keeps is not given out anew by the kernel."""

import os
import resource
import subprocess
import sys

import msgspec
import pytest

from hasten.techniques import kept_memory
from hasten.techniques.kept_memory import SETTINGS, KeptMemoryPart, KeptMemoryTechnique
from hasten.techniques.technique import CannotApply
from specimens import ENVIRONMENT
from trainings import make_training

PROGRAM = """
import sys
import torch
from torch import nn
from hasten import Task
from hasten.host.kernel import kernel_work
from hasten.task.pipeline import Pipeline
from hasten.techniques.kept_memory import KeptMemoryPart, KeptMemoryTechnique

def faults():
    before = kernel_work().faults
    for _ in range(20):
        kept = [torch.ones(256, 1024) for _ in range(4)]  # of 1 MiB each
    return kernel_work().faults - before

task = Task(
    model=nn.Linear(2, 2),
    data=(torch.zeros(4, 2), torch.zeros(4, 2)),
    loss=nn.functional.mse_loss,
    optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    batch_size=2,
)
if "kept" in sys.argv:
    KeptMemoryTechnique().apply(Pipeline.from_task(task), KeptMemoryPart())
faults()
print(faults())
"""
GIVES_BACK = {"MALLOC_TRIM_THRESHOLD_": "131072", "MALLOC_MMAP_THRESHOLD_": "131072"}
"""All that is given back to it, as glibc may and need not by itself."""


@pytest.mark.skipif(kept_memory._unable("cpu") is not None, reason="glibc cannot be asked here")
def test_memory_that_is_kept_needs_no_kernel() -> None:
    pages = 20 * 4 * (1 << 20) // resource.getpagesize()
    assert _faults("kept", {}) < pages / 20
    assert _faults("plain", GIVES_BACK) > pages / 2


def _faults(what: str, variables: dict[str, str]) -> int:
    command = [sys.executable, "-c", PROGRAM, what]
    environment = {**os.environ, **variables}
    return int(subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True).stdout)


@pytest.mark.parametrize("name", SETTINGS)
def test_what_the_environment_has_chosen_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1048576")
    with pytest.raises(CannotApply, match=rf"the environment has chosen already \({name}\)"):
        KeptMemoryTechnique().apply(make_training("perceptron"), KeptMemoryPart())


def test_another_allocator_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/usr/lib/libjemalloc.so.2")
    with pytest.raises(CannotApply, match="LD_PRELOAD"):
        KeptMemoryTechnique().apply(make_training("perceptron"), KeptMemoryPart())


def test_a_device_has_an_allocator_of_its_own() -> None:
    on_device = msgspec.structs.replace(
        ENVIRONMENT, device=msgspec.structs.replace(ENVIRONMENT.device, kind="cuda")
    )
    assert KeptMemoryTechnique().unavailable(on_device) == "the training is not on the CPU"
