"""A snapshot puts everything back that a step changes, to the bit and into the same objects."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    LinearLR,
    LRScheduler,
    OneCycleLR,
    SequentialLR,
    StepLR,
)

from hasten.runtime.run import Run
from hasten.runtime.snapshot import Snapshot, named_state
from hasten.task.pipeline import Pipeline
from plain_loop import make_loader, make_model
from torch_state import bits, model_bits, optimizer_bits, random_settings


def make_pipeline(
    kind: Any = torch.optim.Adam, model: nn.Module | None = None, **options: Any
) -> Pipeline:
    model = model or make_model()
    optimizer = kind(model.parameters(), **options)
    return Pipeline.from_loop(model, make_loader(), optimizer, F.cross_entropy, clip_norm=1.0)


def train(pipeline: Pipeline, steps: int) -> list[float]:
    run = Run(pipeline)
    return [float(run.step(batch)) for _, batch in zip(range(steps), run.endless(), strict=False)]


def everything(pipeline: Pipeline) -> list[Any]:
    return [
        model_bits(pipeline.model),
        [optimizer_bits(each) for each in pipeline.optimizers],
        [repr(each.state_dict()) for each in pipeline.schedulers],
        [each.grad is None or bits(each.grad) for each in pipeline.model.parameters()],
        random_settings(),
    ]


KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "Adam": (torch.optim.Adam, {"amsgrad": True}),
    "fused Adam": (torch.optim.Adam, {"fused": True}),
    "momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "Adagrad": (torch.optim.Adagrad, {}),
    "tensor rate": (torch.optim.Adam, {"lr": torch.tensor(0.01)}),
}


@pytest.mark.parametrize(("kind", "options"), KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("before", [0, 2], ids=["before the first step", "in the middle"])
def test_everything_is_put_back_to_the_bit(kind: Any, options: dict[str, Any], before: int) -> None:
    pipeline = make_pipeline(kind, **options)
    train(pipeline, before)
    held = everything(pipeline)
    snapshot = Snapshot(pipeline)
    first = train(pipeline, 3)
    assert everything(pipeline) != held
    snapshot.restore()
    assert everything(pipeline) == held
    assert train(pipeline, 3) == first


def test_a_snapshot_can_be_restored_more_than_once() -> None:
    pipeline = make_pipeline()
    train(pipeline, 1)
    held = everything(pipeline)
    snapshot = Snapshot(pipeline)
    for _ in range(3):
        train(pipeline, 2)
        snapshot.restore()
        assert everything(pipeline) == held


def test_taking_a_snapshot_changes_nothing() -> None:
    pipeline = make_pipeline()
    train(pipeline, 1)
    held = everything(pipeline)
    Snapshot(pipeline)
    assert everything(pipeline) == held


class Remembering(LRScheduler):
    """Keeps what it has seen in a list of its own."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.seen: list[int] = []
        super().__init__(optimizer)

    def get_lr(self) -> list[float | Tensor]:
        self.seen.append(self.last_epoch)
        return [0.1 / (1 + len(self.seen)) for _ in self.base_lrs]


def sequence(optimizer: torch.optim.Optimizer) -> LRScheduler:
    parts = [LinearLR(optimizer, total_iters=2), CosineAnnealingLR(optimizer, 5)]
    return SequentialLR(optimizer, parts, milestones=[2])


@pytest.mark.parametrize(
    "make",
    [
        lambda optimizer: StepLR(optimizer, 2),
        lambda optimizer: OneCycleLR(optimizer, max_lr=0.1, total_steps=40),
        sequence,
        Remembering,
    ],
    ids=["StepLR", "OneCycleLR", "SequentialLR", "one's own"],
)
def test_schedulers_are_put_back(make: Callable[[Any], LRScheduler]) -> None:
    pipeline = make_pipeline(torch.optim.AdamW)
    pipeline.schedulers = [make(pipeline.optimizers[0])]
    train(pipeline, 1)
    held = everything(pipeline)
    rates = _rates(pipeline)
    snapshot = Snapshot(pipeline)
    for _ in range(2):
        train(pipeline, 4)
        assert _rates(pipeline) != rates
        snapshot.restore()
        assert everything(pipeline) == held
        assert _rates(pipeline) == rates


def _rates(pipeline: Pipeline) -> list[Any]:
    groups = pipeline.optimizers[0].param_groups
    return [(group["lr"], group["betas"]) for group in groups]


class Counting(nn.Module):
    """Buffers of three kinds: not saved, none at first, and replaced at each call."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.register_buffer("calls", torch.zeros(1), persistent=False)
        self.register_buffer("last", None)
        self.register_buffer("replaced", torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        output = self.layer(inputs)
        self.last = output.detach()
        self.replaced = output.detach().sum(0)
        return output


def test_buffers_of_every_kind_are_put_back() -> None:
    model = Counting()
    pipeline = make_pipeline(model=model)
    kept = model.replaced
    snapshot = Snapshot(pipeline)
    train(pipeline, 2)
    assert model.last is not None
    assert model.calls.item() == 2
    snapshot.restore()
    assert model.calls.item() == 0
    assert model.last is None
    assert model.replaced is kept
    assert bits(kept) == bits(torch.zeros(1))


def test_every_tensor_of_a_model_is_named_buffers_that_are_not_saved_included() -> None:
    pipeline = make_pipeline(model=Counting())
    assert sorted(named_state(pipeline)) == ["calls", "layer.bias", "layer.weight", "replaced"]


def test_all_random_generators_are_put_back() -> None:
    snapshot = Snapshot(make_pipeline())
    first = torch.rand(2).tolist(), np.random.rand(2).tolist(), random.random()
    snapshot.restore()
    assert (torch.rand(2).tolist(), np.random.rand(2).tolist(), random.random()) == first


class Mixed(torch.optim.Optimizer):
    """Keeps state of other types than the parameters have, as one with master weights does."""

    def __init__(self, parameters: Iterator[nn.Parameter]) -> None:
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for each in group["params"]:
                state = self.state[each]
                state.setdefault("master", each.double())
                state.setdefault("count", torch.zeros((), dtype=torch.int64)).add_(1)
                state.setdefault("history", []).append(each.grad.clone())
                state["master"] -= group["lr"] * each.grad.double()
                each.copy_(state["master"])


def test_optimizer_state_keeps_its_own_types() -> None:
    """torch's own loading of a state would round it to the type of the parameters."""
    pipeline = make_pipeline(Mixed)
    train(pipeline, 2)
    held = everything(pipeline)
    snapshot = Snapshot(pipeline)
    first = train(pipeline, 2)
    snapshot.restore()
    assert everything(pipeline) == held
    assert train(pipeline, 2) == first


class Wrapping(torch.optim.SGD):
    """Keeps something beside the state, and saves it in a way of its own."""

    average = 0.0

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        super().step(closure)
        self.average += 1.0

    def state_dict(self) -> dict[str, Any]:
        return {"inner": super().state_dict(), "average": self.average}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict["inner"])
        self.average = state_dict["average"]


def test_an_optimizer_that_saves_itself_is_asked_to() -> None:
    pipeline = make_pipeline(Wrapping, lr=0.1, momentum=0.9)
    train(pipeline, 1)
    optimizer = pipeline.optimizers[0]
    assert isinstance(optimizer, Wrapping)
    snapshot = Snapshot(pipeline)
    first = train(pipeline, 2)
    assert optimizer.average == 3.0
    snapshot.restore()
    assert optimizer.average == 1.0
    assert train(pipeline, 2) == first


def test_the_users_own_objects_stay_the_same_objects() -> None:
    rate = torch.tensor(0.01)
    pipeline = make_pipeline(torch.optim.Adam, lr=rate)
    train(pipeline, 1)
    optimizer = pipeline.optimizers[0]
    group, state = optimizer.param_groups[0], optimizer.state
    snapshot = Snapshot(pipeline)
    rate.fill_(0.5)
    train(pipeline, 1)
    snapshot.restore()
    assert optimizer.param_groups[0] is group
    assert optimizer.state is state
    assert group["lr"] is rate
    assert rate.item() == pytest.approx(0.01)


def test_parameters_outside_the_model_are_put_back_too() -> None:
    """As of a loss that learns."""
    pipeline = make_pipeline()
    scale = nn.Parameter(torch.ones(()))
    pipeline.optimizers[0].add_param_group({"params": [scale]})
    pipeline.forward = lambda model, batch: F.cross_entropy(model(batch[0]) * scale, batch[1])
    snapshot = Snapshot(pipeline)
    first = train(pipeline, 3)
    assert scale.item() != 1.0
    snapshot.restore()
    assert scale.item() == 1.0
    assert scale.grad is None
    assert train(pipeline, 3) == first


def test_gradients_that_no_optimizer_clears_are_put_back() -> None:
    """They count in the norm that gradients are clipped by."""
    pipeline = make_pipeline()
    held_back = next(pipeline.model.parameters())
    pipeline.optimizers = [torch.optim.SGD(list(pipeline.model.parameters())[1:], lr=0.1)]
    train(pipeline, 1)
    assert held_back.grad is not None
    before = bits(held_back.grad)
    snapshot = Snapshot(pipeline)
    first = train(pipeline, 2)
    assert bits(held_back.grad) != before
    snapshot.restore()
    assert bits(held_back.grad) == before
    assert train(pipeline, 2) == first
    snapshot.restore()
    assert bits(held_back.grad) == before
