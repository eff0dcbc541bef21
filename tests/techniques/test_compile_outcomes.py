"""What became of compiling is told: what torch passed over, and where it broke off."""

import re
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn import functional as F

from compiling import PLAN, TECHNIQUE, apply_to, make_pipeline, quick
from hasten.host.environment import read_environment
from hasten.records.applied import Applied
from hasten.records.environment import Environment
from hasten.runtime.run import Run
from hasten.task.traits import read_traits
from hasten.techniques.technique import CannotApply
from plain_loop import make_model

pytestmark = pytest.mark.usefixtures("forget_compiled_code")
GAVE_UP = "torch compiled no part of the model"


def test_a_model_of_recurrent_layers_alone_is_reported_as_not_compiled(
    compiler: CompileCounterWithBackend,
) -> None:
    model = nn.LSTM(6, 3, batch_first=True)

    def forward(model: nn.Module, batch: Any) -> Tensor:
        return model(batch[0].unsqueeze(1))[0].square().mean()

    pipeline = make_pipeline(model)
    pipeline.forward = forward
    assert TECHNIQUE.unsuited(read_traits(pipeline)) == "torch does not compile recurrent layers"
    run = Run(pipeline, PLAN)
    run.step(next(iter(run.dataloader)))
    assert run.applied == [Applied(technique="compile", outcome="fell_back", why=GAVE_UP)]
    assert model._compiled_call_impl is None


def test_recurrent_layers_among_others_are_worth_a_trial() -> None:
    model = nn.ModuleList([nn.LSTM(6, 3), nn.Linear(3, 3)])
    assert TECHNIQUE.unsuited(read_traits(make_pipeline(model))) is None


class Stubborn(nn.Module):
    """Torch is told to leave it alone, and does so without a word."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    @torch.compiler.disable
    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer(inputs)


def test_a_model_that_torch_passes_over_is_reported(compiler: CompileCounterWithBackend) -> None:
    run = Run(make_pipeline(Stubborn()), PLAN)
    run.step(next(iter(run.dataloader)))
    assert run.applied == [Applied(technique="compile", outcome="fell_back", why=GAVE_UP)]


def test_a_first_call_without_gradients_is_no_reason_to_give_up(
    compiler: CompileCounterWithBackend,
) -> None:
    """As where a target is made by the same model first."""

    def forward(model: nn.Module, batch: Any) -> Tensor:
        with torch.no_grad():
            target = model(batch[0]).detach()
        return F.mse_loss(model(batch[0]), target + 1)

    pipeline = make_pipeline(make_model())
    pipeline.forward = forward
    run = Run(pipeline, PLAN)
    run.step(next(iter(run.dataloader)))
    assert [each.outcome for each in run.applied] == ["done"]
    run.undo()


def test_a_model_that_the_user_has_compiled_is_left_alone(
    compiler: CompileCounterWithBackend,
) -> None:
    model = make_model()
    model.compile()
    before = model._compiled_call_impl
    with pytest.raises(CannotApply, match="the model is compiled already"):
        apply_to(model)
    assert model._compiled_call_impl is before


def environment(**changes: Any) -> Environment:
    return msgspec.structs.replace(read_environment(), **changes)


def test_without_a_compiler_or_triton_it_is_not_available() -> None:
    here = read_environment().device
    cpu = type(here)(kind="cpu", name="a CPU", count=1, memory_bytes=0)
    gpu = type(here)(kind="cuda", name="a GPU", count=1, memory_bytes=0)
    assert TECHNIQUE.unavailable(environment(device=cpu, compiler="/usr/bin/g++")) is None
    assert TECHNIQUE.unavailable(environment(device=gpu, versions={"triton": "3"})) is None
    assert TECHNIQUE.unavailable(environment(device=cpu, compiler=None)) == (
        "there is no C++ compiler (g++ or clang++) on the path"
    )
    assert TECHNIQUE.unavailable(environment(device=gpu, versions={})) == (
        "triton is not installed"
    )


class Talking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        inputs = self.first(inputs)
        print("half way")
        return self.second(inputs)


def test_what_cannot_be_traced_is_counted_as_a_break() -> None:
    run = Run(make_pipeline(Talking()), quick())
    for batch in run.epoch():
        run.step(batch)
    (said,) = run.applied
    assert said.outcome == "done"
    graphs, breaks = re.findall(r"(\d+) (?:new graph|break)", said.why)
    assert int(graphs) == 2
    assert int(breaks) >= 1


def test_what_other_code_compiles_is_not_counted() -> None:
    run = Run(make_pipeline(make_model()), quick())
    batch = next(iter(run.dataloader))
    for number in range(10):
        run.step(batch)
        theirs = torch.compile(eval(f"lambda x: x * {number}"), backend="eager")
        theirs(torch.ones(2))
    assert [str(each) for each in run.applied] == [
        "compile: done (whole model, mode default, backend aot_eager: 1 new graph, 0 breaks)"
    ]
    run.undo()


def test_what_torch_gave_up_in_one_model_is_compiled_in_the_next() -> None:
    """torch remembers by the code object, and all models go through code of ours."""
    for model in (Talking(), nn.LSTM(6, 3), make_model()):
        pipeline = make_pipeline(model)
        if isinstance(model, nn.LSTM):
            pipeline.forward = lambda model, batch: model(batch[0])[0].sum()
        run = Run(pipeline, quick())
        run.step(next(iter(run.dataloader)))
    assert [str(each) for each in run.applied] == [
        "compile: done (whole model, mode default, backend aot_eager: 1 new graph, 0 breaks)"
    ]


def test_many_models_in_one_process_are_all_compiled() -> None:
    """More than torch compiles of one function."""
    for width in range(1, 13):
        model = nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, 3))
        run = Run(make_pipeline(model), quick())
        run.step(next(iter(run.dataloader)))
        assert [each.outcome for each in run.applied] == ["done"], width
