"""Each setting of compiling reaches what it is for."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from compiling import TECHNIQUE, make_pipeline, quick
from hasten.host.environment import find_compiler
from hasten.records.plan import Plan
from hasten.runtime.run import Run
from hasten.techniques.compile import CompilePart
from plain_loop import make_model
from trainings import Block, make_training

pytestmark = pytest.mark.usefixtures("forget_compiled_code")


def test_the_mode_reaches_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[str] = []

    def compile_nothing(function: Any, *, mode: str, backend: str) -> Any:
        assert backend == "inductor"
        modes.append(mode)
        return function

    monkeypatch.setattr(torch, "compile", compile_nothing)
    for mode in ("default", "reduce-overhead", "max-autotune"):
        TECHNIQUE.apply(make_pipeline(make_model()), CompilePart(mode=mode))  # type: ignore[arg-type]
    assert modes == ["default", "reduce-overhead", "max-autotune"]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_backends_without_code_show_what_fails(backend: str) -> None:
    run = Run(make_pipeline(make_model()), Plan(parts={"compile": {"backend": backend}}))
    run.step(next(iter(run.dataloader)))
    assert [str(each) for each in run.applied] == [
        f"compile: done (whole model, mode default, backend {backend}: 1 new graph, 0 breaks)"
    ]


def test_blocks_are_compiled_once_for_all() -> None:
    pipeline = make_training("transformer")
    pipeline.model.blocks.extend(Block() for _ in range(10))
    pipeline.optimizers = [torch.optim.SGD(pipeline.model.parameters(), lr=0.1)]
    run = Run(pipeline, quick(regions="blocks"))
    for batch in run.epoch():
        run.step(batch)
    assert [str(each) for each in run.applied] == [
        "compile: done (12 blocks, mode default, backend aot_eager: 1 new graph, 0 breaks)"
    ]
    assert all(block._compiled_call_impl.took_part for block in pipeline.model.blocks)
    assert pipeline.model._compiled_call_impl is None
    run.undo()
    assert all(block._compiled_call_impl is None for block in pipeline.model.blocks)


def test_a_model_without_blocks_is_not_compiled_by_blocks() -> None:
    (said,) = Run(make_pipeline(make_model()), quick(regions="blocks")).applied
    assert (said.outcome, said.why) == ("skipped", "the model has no repeated blocks")


@pytest.mark.parametrize("before", [None, "elsewhere"])
def test_the_folder_of_compiled_code_is_named_while_it_is_applied(
    before: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    if before is not None:
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", before)
    run = Run(make_pipeline(make_model()), quick(cache_dir=str(tmp_path / "code")))
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "code")
    run.undo()
    assert os.environ.get("TORCHINDUCTOR_CACHE_DIR") == before


CACHED = """
import sys
import torch
from torch import nn
from torch.nn import functional as F
from hasten.records.plan import Plan
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = torch.randn(8, 6), torch.zeros(8, dtype=torch.long)
pipeline = Pipeline.from_loop(model, [batch], optimizer, F.cross_entropy)
run = Run(pipeline, Plan(parts={"compile": {"cache_dir": sys.argv[1]}}))
run.step(batch)
print(run.applied[0])
"""


@pytest.mark.long
@pytest.mark.skipif(find_compiler() is None, reason="there is no C++ compiler on the path")
def test_a_later_process_finds_the_compiled_code(tmp_path: Path) -> None:
    said = []
    for _ in range(2):
        ended = subprocess.run(
            [sys.executable, "-c", CACHED, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
        )
        said.append(ended.stdout.strip())
    assert said[0] == "compile: done (whole model, mode default: 1 new graph, 0 breaks)"
    assert said[1] == (
        "compile: done (whole model, mode default: 1 new graph (2 pieces of code from the cache), "
        "0 breaks)"
    )
    assert any(tmp_path.rglob("*.cpp"))
