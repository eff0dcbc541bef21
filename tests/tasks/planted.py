"""Small tasks and planted techniques, right and wrong ones, loaded as a user's file would be."""

import os
import signal
import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import hasten


def _model() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def small() -> hasten.Task:
    """Few rows: loads and steps in no time."""
    rows = torch.randn(192, 16), torch.randint(0, 4, (192,))
    return hasten.Task(
        model=_model(),
        data=rows,
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        batch_size=32,
    )


def slow_loader() -> hasten.Task:
    """Large batches of small rows: nearly all of the step is spent collating them."""
    rows = torch.randn(4096, 16), torch.randint(0, 4, (4096,))
    return hasten.Task(
        model=nn.Linear(16, 4),
        data=rows,
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-2),
        batch_size=512,
    )


def with_loader_workers() -> hasten.Task:
    data = TensorDataset(torch.randn(256, 16), torch.randint(0, 4, (256,)))
    return hasten.Task(
        model=_model(),
        data=DataLoader(data, batch_size=32, shuffle=True, num_workers=2),
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
    )


def not_a_task() -> dict[str, int]:
    return {"model": 1}


def raises_while_building() -> hasten.Task:
    raise KeyError("the table has no column 'label'")


class RaisingModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 4)

    def forward(self, rows: Tensor) -> Tensor:
        raise ValueError("expected 3 channels, got 16")


def model_raises() -> hasten.Task:
    task = small()
    return hasten.Task(
        model=RaisingModel(),
        data=task.data,
        loss=task.loss,
        optimizer=task.optimizer,
        batch_size=32,
    )


def kills_itself() -> hasten.Task:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def hangs() -> hasten.Task:
    time.sleep(3600)
    raise AssertionError("unreachable")


def prints_much() -> hasten.Task:
    print("x" * 200_000)
    return small()


class PlantedPart(hasten.Part, frozen=True):
    pass


class _Planted(hasten.Technique[PlantedPart]):
    part = PlantedPart
    stage = hasten.Stage.OPTIMIZER
    rung = hasten.Rung.ROUNDING
    answers = ("slow-optimizer",)
    about = "Planted by a test."

    def to_try(self, environment, traits) -> list[PlantedPart]:  # type: ignore[no-untyped-def]
        return [PlantedPart()]

    def apply(self, pipeline: hasten.Pipeline, part: PlantedPart) -> hasten.Effect:
        forward = pipeline.forward
        self.change(pipeline)

        def undo() -> None:
            pipeline.forward = forward

        return hasten.Effect(why="planted", undo=undo)

    def change(self, pipeline: hasten.Pipeline) -> None:
        raise AssertionError("each planted technique has its own")


class ScaledGradient(_Planted):
    """Every gradient is 1 % too large."""

    name = "scaled_gradient"

    def change(self, pipeline: hasten.Pipeline) -> None:
        for parameter in pipeline.model.parameters():
            parameter.register_hook(lambda gradient: gradient * 1.01)


class FrozenParameter(_Planted):
    """One bias no longer learns."""

    name = "frozen_parameter"

    def change(self, pipeline: hasten.Pipeline) -> None:
        list(pipeline.model.parameters())[1].requires_grad_(False)


class _HalvedBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        return value.clone()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        return gradient / 2


class WrongGradientEqualLoss(_Planted):
    """The loss is the same to the bit, the gradients behind the first layer are half."""

    name = "wrong_gradient_equal_loss"

    def change(self, pipeline: hasten.Pipeline) -> None:
        first = pipeline.model[0]  # type: ignore[index]
        first.register_forward_hook(lambda module, args, output: _HalvedBackward.apply(output))


class MovedStart(_Planted):
    """One bit of one weight is flipped before the first step."""

    name = "moved_start"

    def change(self, pipeline: hasten.Pipeline) -> None:
        with torch.no_grad():
            weights = next(pipeline.model.parameters()).view(torch.int32)
            weights.view(-1)[0] ^= 1


class OtherOrder(_Planted):
    """The same rows, in the order of the next seed."""

    name = "other_order"
    rung = hasten.Rung.BITWISE
    stage = hasten.Stage.DATA
    answers = ("data-wait",)

    def change(self, pipeline: hasten.Pipeline) -> None:
        loader = pipeline.loader
        assert isinstance(loader, DataLoader)
        generator = torch.Generator().manual_seed(99)
        pipeline.loader = DataLoader(
            loader.dataset, batch_size=loader.batch_size, shuffle=True, generator=generator
        )


class Harmless(_Planted):
    """Changes nothing at all."""

    name = "harmless"
    rung = hasten.Rung.BITWISE

    def change(self, pipeline: hasten.Pipeline) -> None:
        return None


for technique in (
    ScaledGradient,
    FrozenParameter,
    WrongGradientEqualLoss,
    MovedStart,
    OtherOrder,
    Harmless,
):
    hasten.register_technique(technique)
