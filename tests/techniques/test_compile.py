"""Compiling in place: that it really happens, and that the model stays the user's."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

from compiling import PLAN, apply_to, make_pipeline
from hasten.host.environment import find_compiler
from hasten.records.applied import Applied
from hasten.records.plan import Plan
from hasten.runtime.run import Run
from plain_loop import make_model

pytestmark = pytest.mark.usefixtures("forget_compiled_code")


def test_a_sequential_of_torchs_own_classes_is_really_compiled(
    compiler: CompileCounterWithBackend,
) -> None:
    """Module.compile on one compiles nothing, and says nothing."""
    model = make_model()
    run = Run(make_pipeline(model), PLAN)
    run.step(next(iter(run.dataloader)))
    assert compiler.frame_count == 1
    assert run.applied == [
        Applied(
            technique="compile",
            outcome="done",
            why="whole model, mode default: 1 new graph, 0 breaks",
        )
    ]
    assert [live.technique for live in run.effects] == ["compile"]


@pytest.mark.skipif(find_compiler() is None, reason="there is no C++ compiler on the path")
def test_a_compiled_training_stays_near_the_plain_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With the real compiler, from the graph to machine code."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR", "")  # torch writes it itself
    losses = []
    for plan in (Plan(), PLAN):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
        run = Run(make_pipeline(model), plan)
        losses.append([float(run.step(batch)) for batch in run.epoch()])
    assert [each.outcome for each in run.applied] == ["done"]
    assert any(tmp_path.rglob("*.cpp"))
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert list(model.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_a_partial_batch_runs_eagerly_and_compiles_nothing(
    compiler: CompileCounterWithBackend,
) -> None:
    """7 batches an epoch, the last of them partial."""
    run = Run(make_pipeline(make_model()), PLAN)
    for _ in range(2):
        for batch in run.epoch():
            run.step(batch)
    assert compiler.frame_count == 1
    run.undo()


def test_full_batches_go_through_the_compiled_code() -> None:
    model, calls = make_model(), []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Any:
        def run_graph(*args: Tensor) -> Any:
            calls.append("graph")
            return graph(*args)

        return run_graph

    compile_for_real = torch.compile
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            torch,
            "compile",
            lambda function, **options: compile_for_real(function, backend=backend),
        )
        effect = apply_to(model)
    for rows in (8, 8, 2, 8):
        model(torch.randn(rows, 6))
    assert calls == ["graph"] * 3
    effect.undo()
    model(torch.randn(8, 6))
    assert calls == ["graph"] * 3


def test_the_outputs_are_those_of_the_model(compiler: CompileCounterWithBackend) -> None:
    model, inputs = make_model(), torch.randn(8, 6)
    twin = copy.deepcopy(model)
    effect = apply_to(model)
    for rows in (8, 3):
        torch.manual_seed(rows)
        found = model(inputs[:rows])
        torch.manual_seed(rows)
        assert torch.equal(found, twin(inputs[:rows]))
    assert compiler.frame_count == 1
    effect.undo()


def test_an_odd_call_before_training_does_not_keep_it_from_compiling(
    compiler: CompileCounterWithBackend,
) -> None:
    model = make_model()
    effect = apply_to(model)
    with torch.no_grad():
        model.eval()(torch.zeros(1, 6))
        model.train()(torch.zeros(2, 6))
    assert compiler.frame_count == 0
    model(torch.randn(8, 6))
    assert compiler.frame_count == 1
    assert effect.did_run() is None
    effect.undo()


def test_undo_leaves_a_compilation_of_the_users_own(compiler: CompileCounterWithBackend) -> None:
    model = make_model()
    effect = apply_to(model)
    model.compile()
    theirs = model._compiled_call_impl
    effect.undo()
    assert model._compiled_call_impl is theirs


class Named(nn.Module):
    """Called by keyword, with things of many kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, *, scale: float, parts: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"logits": self.layer(parts["bits"]) * scale}


def test_a_model_that_is_called_by_keyword_alone(compiler: CompileCounterWithBackend) -> None:
    model, bits = Named(), torch.randn(8, 6)
    plain = model(scale=2.0, parts={"bits": bits})["logits"]
    effect = apply_to(model)
    assert torch.equal(model(scale=2.0, parts={"bits": bits})["logits"], plain)
    assert effect.did_run() is None
    model(scale=2.0, parts={"bits": bits[:3]})
    assert compiler.frame_count == 1
    effect.undo()


def test_state_keeps_its_names(compiler: CompileCounterWithBackend) -> None:
    model = make_model()
    names = list(model.state_dict())
    effect = apply_to(model)
    model(torch.randn(8, 6))
    assert list(model.state_dict()) == names
    assert type(model) is nn.Sequential
    effect.undo()


def test_hooks_of_the_model_still_run(compiler: CompileCounterWithBackend) -> None:
    model, seen = nn.Sequential(nn.Linear(6, 3)), []
    model.register_forward_hook(lambda module, args, output: seen.append(tuple(output.shape)))
    effect = apply_to(model)
    model(torch.randn(8, 6))
    model(torch.randn(2, 6))
    assert seen == [(8, 3), (2, 3)]
    effect.undo()
