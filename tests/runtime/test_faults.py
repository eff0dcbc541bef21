"""Real failures of real machines: no compiler or one that crashes, threads, forks, workers."""

import json
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from hasten.host.environment import read_environment
from hasten.records.plan import NAIVE, Plan
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.seed import random_state, restore_random_state
from plain_loop import make_loader, make_model
from torch_state import model_bits

COMPILED = Plan(parts={"compile": {"backend": "aot_eager"}})


@torch.library.custom_op("hasten_tests::double", mutates_args=())
def double(values: Tensor) -> Tensor:
    """It has no meaning for a compiler: tracing it fails, running it does not."""
    return values * 2


double.register_autograd(lambda context, gradient: gradient * 2)


class Opaque(nn.Module):
    """Uses the operation in the steps that are named, counted by the model itself."""

    def __init__(self, steps: range) -> None:
        super().__init__()
        self.body, self.steps, self.calls = make_model(), steps, 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        output: Tensor = self.body(inputs)
        return double(output) if self.calls in self.steps else output


def train(plan: Plan, model: nn.Module | None = None, epochs: int = 2) -> tuple[Run, list[float]]:
    torch.manual_seed(6)
    model = model or make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    pipeline = Pipeline.from_loop(model, make_loader(), optimizer, F.cross_entropy, clip_norm=0.5)
    run = Run(pipeline, plan)
    return run, [float(run.step(batch)) for _ in range(epochs) for batch in run.epoch()]


@pytest.mark.parametrize("steps", [range(1, 100), range(3, 4)], ids=["always", "third step only"])
def test_a_compiler_that_crashes_leaves_the_training_as_it_was(steps: range) -> None:
    torch.manual_seed(0)
    plain, losses = train(NAIVE, Opaque(steps))
    torch.manual_seed(0)
    run, found = train(COMPILED, Opaque(steps))
    assert [each.outcome for each in run.applied] == ["fell_back"]
    assert "fake tensor call" in run.applied[0].why
    assert found == losses
    assert model_bits(run.model)["tensors"] == model_bits(plain.model)["tensors"]


WITHOUT_A_COMPILER = """
import json
from test_faults import NAIVE, Plan, train
plain = train(NAIVE)[1]
run, losses = train(Plan(parts={"compile": {}, "fused_optimizer": {}}))
fused = train(Plan(parts={"fused_optimizer": {}}))[1]
print(json.dumps([[str(each) for each in run.applied], losses == fused, losses == plain]))
"""


def test_without_a_compiler_that_technique_is_off_and_the_rest_works(tmp_path: Any) -> None:
    """The real command line tools are gone: torch finds out when it compiles."""
    (tmp_path / "bin").mkdir()
    here = Path(__file__).parent
    paths = [*sys.path, str(here), str(here.parent)]
    environment = {
        "PATH": str(tmp_path / "bin"),
        "PYTHONPATH": os.pathsep.join(paths),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
        "HOME": str(tmp_path),
    }
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_COMPILER],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ended.returncode == 0, ended.stderr
    applied, as_fused, _ = json.loads(ended.stdout.splitlines()[-1])
    assert applied[0] == "fused_optimizer: done (AdamW fused)"
    assert applied[1].startswith("compile: fell back (")
    assert "compiler" in applied[1].lower()
    assert as_fused


def test_runs_in_threads_train_as_alone() -> None:
    """A model that draws nothing: threads share the generators, with Hasten or without."""

    def work(place: int, into: dict[int, list[float]]) -> None:
        generator = torch.Generator().manual_seed(place)
        model = nn.Linear(6, 3)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        pipeline = Pipeline.from_loop(
            model, make_loader(shuffle=False), optimizer, F.cross_entropy, clip_norm=0.5
        )
        run = Run(pipeline, Plan(parts={"batched_loader": {}, "fused_optimizer": {}}))
        into[place] = [float(run.step(batch)) for _ in range(3) for batch in run.epoch()]
        assert [each.outcome for each in run.applied] == ["done", "done"]

    alone: dict[int, list[float]] = {}
    together: dict[int, list[float]] = {}
    for place in range(4):
        work(place, alone)
    threads = [threading.Thread(target=work, args=(place, together)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert together == alone


def _train_and_send(connection: Any) -> None:
    connection.send(train(Plan(parts={"batched_loader": {}, "fused_optimizer": {}}))[1])


def test_a_forked_process_trains_as_its_parent() -> None:
    expected = train(Plan(parts={"batched_loader": {}, "fused_optimizer": {}}))[1]
    ours, theirs = multiprocessing.get_context("fork").Pipe()
    child = multiprocessing.get_context("fork").Process(target=_train_and_send, args=(theirs,))
    child.start()
    assert ours.poll(60)
    assert ours.recv() == expected
    child.join(60)
    assert child.exitcode == 0


class Asking(Dataset[Tensor]):
    """Uses Hasten inside a loader worker."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Tensor:
        state = random_state()
        kind = read_environment().device.kind
        restore_random_state(state)
        return torch.tensor([index, len(kind)])


def test_inside_a_loader_worker_nothing_hangs() -> None:
    found = list(DataLoader(Asking(), batch_size=2, num_workers=2))
    assert torch.cat(found)[:, 0].tolist() == [0, 1, 2, 3]
