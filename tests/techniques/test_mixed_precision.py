"""Sixteen bits where they were asked for, one scaler for the whole run, and weights in fp32."""

from typing import Any, ClassVar

import msgspec
import pytest
import torch
from torch import Tensor, nn

from hasten.host.environment import read_environment
from hasten.records.plan import Plan, Rung
from hasten.runtime.run import Run
from hasten.task.traits import read_traits
from hasten.techniques import registry
from hasten.techniques.mixed_precision import MixedPrecisionTechnique
from hasten.techniques.registry import register_technique
from hasten.techniques.technique import Effect, Part, Stage, Technique
from trainings import make_training

dtypes = pytest.mark.parametrize("dtype", ["bf16", "fp16"])
TORCH = {"bf16": torch.bfloat16, "fp16": torch.float16}


def plan_of(dtype: str, **more: Any) -> Plan:
    return Plan(parts={"mixed_precision": {"dtype": dtype, **more}})


def train(run: Run, epochs: int = 1) -> list[float]:
    return [float(run.step(batch)) for _ in range(epochs) for batch in run.epoch()]


@dtypes
@pytest.mark.parametrize("training", ["perceptron", "convolutions", "transformer", "language"])
def test_it_runs_in_sixteen_bits_and_keeps_the_weights_in_fp32(training: str, dtype: str) -> None:
    pipeline, seen = make_training(training), []
    pipeline.model.register_forward_hook(lambda module, args, output: seen.append(output.dtype))
    run = Run(pipeline, plan_of(dtype))
    losses = train(run)
    assert [each.outcome for each in run.applied] == ["done"]
    assert set(seen) == {TORCH[dtype]}
    assert {each.dtype for each in pipeline.model.parameters()} == {torch.float32}
    assert {each.grad.dtype for each in pipeline.model.parameters()} == {torch.float32}
    plain = train(Run(make_training(training)))
    assert losses[0] == pytest.approx(plain[0], rel=0.05)
    assert all(loss == loss for loss in losses)


def test_bf16_has_no_scaler_and_fp16_one() -> None:
    assert Run(make_training("perceptron"), plan_of("bf16")).pipeline.scaler is None
    run = Run(make_training("perceptron"), plan_of("fp16", initial_scale=32.0))
    assert run.pipeline.scaler is not None
    assert run.pipeline.scaler.get_scale() == 32.0
    run.undo()
    assert run.pipeline.scaler is None


@dtypes
def test_weights_in_sixteen_bits_are_left_alone(dtype: str) -> None:
    pipeline = make_training("perceptron")
    pipeline.model.half()
    (said,) = Run(pipeline, plan_of(dtype)).applied
    assert (said.outcome, said.why) == ("skipped", "the weights are in 16 bits already")


def test_an_autocast_of_the_loops_own_is_left_alone() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        (said,) = Run(make_training("perceptron"), plan_of("bf16")).applied
    assert said.why == "the loop runs under an autocast of its own"


class Products(nn.Module):
    """Nothing that autocast knows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6, 3))

    def forward(self, inputs: Tensor) -> Tensor:
        return (inputs[:, :, None] * self.weight).sum(1)


def test_a_model_that_computes_nothing_in_sixteen_bits_is_reported() -> None:
    pipeline = make_training("perceptron")
    pipeline.model = Products()
    pipeline.optimizers = [torch.optim.SGD(pipeline.model.parameters(), lr=0.1)]
    assert MixedPrecisionTechnique().unsuited(read_traits(pipeline)) == (
        "the model has no matrix product"
    )
    run = Run(pipeline, plan_of("bf16"))
    train(run)
    assert [str(each) for each in run.applied] == [
        "mixed_precision: fell back (nothing was computed in bf16)"
    ]


def test_a_layer_that_has_no_fp16_here_falls_back_with_its_error() -> None:
    run = Run(make_training("recurrent"), plan_of("fp16"))
    losses = train(run)
    (said,) = run.applied
    assert said.outcome == "fell_back"
    assert said.why.startswith("RuntimeError: could not create a primitive")
    assert run.pipeline.scaler is None
    assert losses == train(Run(make_training("recurrent")))


def test_the_scale_grows_over_epochs_and_is_not_made_anew() -> None:
    run = Run(make_training("perceptron"), plan_of("fp16", initial_scale=64.0))
    scaler = run.pipeline.scaler
    assert scaler is not None
    scaler.set_growth_interval(3)
    train(run, epochs=2)  # 8 steps
    assert run.pipeline.scaler is scaler
    assert scaler.get_scale() == 256.0


def test_an_overflow_skips_the_update_and_lowers_the_scale() -> None:
    run = Run(make_training("perceptron"), plan_of("fp16", initial_scale=2.0**40))
    before = [each.detach().clone() for each in run.model.parameters()]
    batch = next(iter(run.dataloader))
    run.step(batch)
    assert run.pipeline.scaler is not None
    assert run.pipeline.scaler.get_scale() == 2.0**39
    for one, other in zip(before, run.model.parameters(), strict=True):
        assert torch.equal(one, other)
    for _ in range(40):
        run.step(batch)
    assert not torch.equal(before[0], next(iter(run.model.parameters())))
    assert [each.outcome for each in run.applied] == ["done"]


class Fragile(Technique[Part]):
    """Fails from a given call on, however often it is applied."""

    name = "fragile"
    part = Part
    stage = Stage.INIT
    rung = Rung.BITWISE
    answers = ()
    about = "Breaks."
    reserved_for = "asked"
    calls_left: ClassVar[list[int]] = []

    def to_try(self, environment: Any, traits: Any) -> list[Part]:
        return []

    def apply(self, pipeline: Any, part: Part) -> Effect:
        before = pipeline.forward

        def forward(*args: Any) -> Any:
            if not self.calls_left:
                raise RuntimeError("broken")
            self.calls_left.pop()
            return before(*args)

        def undo() -> None:
            pipeline.forward = before

        pipeline.forward = forward
        return Effect(why="fragile", undo=undo)


def test_the_scale_survives_the_fall_of_another_technique(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "_techniques", dict(registry._techniques))
    register_technique(Fragile)
    Fragile.calls_left[:] = range(3)
    parts = {**plan_of("fp16", initial_scale=2.0**40).parts, "fragile": {}}
    run = Run(make_training("perceptron"), Plan(parts=parts))
    batch = next(iter(run.dataloader))
    scales = []
    for _ in range(5):
        run.step(batch)
        assert run.pipeline.scaler is not None
        scales.append(run.pipeline.scaler.get_scale())
    assert {each.technique: each.outcome for each in run.applied} == {
        "mixed_precision": "done",
        "fragile": "fell_back",
    }
    assert scales == [2.0 ** (39 - step) for step in range(5)]


def test_gradients_are_unscaled_before_they_are_clipped() -> None:
    run = Run(make_training("perceptron", dropout=False), plan_of("fp16", initial_scale=1024.0))
    plain = Run(make_training("perceptron", dropout=False))
    batch = next(iter(run.dataloader))
    run.step(batch), plain.step(batch)
    assert float(run.eager.gradient_norm) == pytest.approx(  # type: ignore[arg-type]
        float(plain.eager.gradient_norm),  # type: ignore[arg-type]
        rel=0.01,
    )


def test_a_machine_without_fast_bf16_is_told() -> None:
    environment = read_environment()
    slow = msgspec.structs.replace(environment.device, bf16=False, name="an old CPU")
    fast = msgspec.structs.replace(environment.device, bf16=True)
    technique = MixedPrecisionTechnique()
    assert technique.unavailable(msgspec.structs.replace(environment, device=fast)) is None
    assert technique.unavailable(msgspec.structs.replace(environment, device=slow)) == (
        "an old CPU has no fast 16-bit arithmetic"
    )
