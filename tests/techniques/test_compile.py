"""Compiling in place: that it really happens, and that the model stays the user's."""

import copy
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn import functional as F

from arms import first_difference, measure_yardstick, trace
from hasten.host.environment import find_compiler, read_environment
from hasten.records.applied import Applied
from hasten.records.environment import Environment
from hasten.records.plan import Plan
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.traits import read_traits
from hasten.techniques.compile import CompilePart, CompileTechnique
from hasten.techniques.technique import CannotApply
from plain_loop import make_loader, make_model
from trainings import Block, make_training

PLAN = Plan(parts={"compile": {}})
TECHNIQUE = CompileTechnique()
GAVE_UP = "torch compiled no part of the model"


@pytest.fixture(autouse=True)
def _forget_compiled_code() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> CompileCounterWithBackend:
    """All of torch.compile but its slow last stage; counts the graphs and how often they ran."""
    counter, compile_for_real = CompileCounterWithBackend("aot_eager"), torch.compile

    def compile_and_count(function: Any, **options: Any) -> Any:
        return compile_for_real(function, backend=counter)

    monkeypatch.setattr(torch, "compile", compile_and_count)
    return counter


def make_pipeline(model: nn.Module) -> Pipeline:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Pipeline.from_loop(model, make_loader(), optimizer, F.cross_entropy)


def apply_to(model: nn.Module) -> Any:
    return TECHNIQUE.apply(make_pipeline(model), CompilePart())


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


def quick(**part: Any) -> Plan:
    return Plan(parts={"compile": {"backend": "aot_eager", **part}})


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


class ByTheTable(nn.Module):
    """Its code depends on the length of its input, so that each length is compiled anew."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 3)
        self.table = {length: 1.0 / (1 + length) for length in range(40)}

    def forward(self, inputs: Tensor) -> Tensor:
        share = self.table[int(inputs.shape[1])]
        return self.layer(inputs.sum(1, keepdim=True) * share)


class LongerAndLonger:
    """Batches of 8 rows, each longer than the one before."""

    def __iter__(self) -> Iterator[Any]:
        generator = torch.Generator().manual_seed(0)
        for length in range(2, 26):
            yield (
                torch.randn(8, length, generator=generator),
                torch.randint(3, (8,), generator=generator),
            )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_training_that_compiles_without_end_is_set_back(backend: str) -> None:
    def make() -> Pipeline:
        torch.manual_seed(0)
        pipeline = make_pipeline(ByTheTable())
        pipeline.loader = LongerAndLonger()
        return pipeline

    plain = trace(make(), Plan(), "whole")
    changed = trace(make(), Plan(parts={"compile": {"backend": backend}}), "whole")
    assert changed.run is not None
    assert [str(each) for each in changed.run.applied] == [
        "compile: fell back (it compiled 7 more graphs after the first step)"
    ]
    assert changed.run.model._compiled_call_impl is None
    if backend == "eager":
        assert first_difference(plain, changed) == ""
    assert measure_yardstick(make, Plan(), "whole").share(changed) <= 1.0


def test_lengths_that_move_are_compiled_for_all_lengths() -> None:
    """No storm: torch makes the length dynamic the second time."""
    pipeline = make_pipeline(nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(1, 3)))
    pipeline.loader = [(inputs[:, None], target) for inputs, target in LongerAndLonger()]
    run = Run(pipeline, quick())
    for batch in run.epoch():
        run.step(batch)
    assert [each.outcome for each in run.applied] == ["done"]


def test_an_evaluation_between_the_steps_is_no_storm() -> None:
    run = Run(make_pipeline(make_model()), quick())
    batch = next(iter(run.dataloader))
    for _ in range(12):
        run.step(batch)
        run.model.eval()
        with torch.no_grad():
            run.model(batch[0])
        run.model.train()
    assert [each.outcome for each in run.applied] == ["done"]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_backends_without_code_show_what_fails(backend: str) -> None:
    run = Run(make_pipeline(make_model()), Plan(parts={"compile": {"backend": backend}}))
    run.step(next(iter(run.dataloader)))
    assert [str(each) for each in run.applied] == [
        f"compile: done (whole model, mode default, backend {backend}: 1 new graph, 0 breaks)"
    ]


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
