"""What a checkpoint keeps: a training in two parts is the training in one, to the bit."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from processes import bits_at, same_bits
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop
from torch.optim.lr_scheduler import (
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiStepLR,
    OneCycleLR,
    SequentialLR,
)

from hasten.errors import HastenError
from hasten.records.plan import NAIVE, Plan
from hasten.runtime.evaluate import evaluate
from hasten.task.task import Task
from hasten.train.fit import fit

ROWS = 50
STEPS, STOP = 12, 8
"""An epoch has 7 batches."""


def inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(ROWS, 6, generator=generator), torch.randint(
        0, 3, (ROWS,), generator=generator
    )


def make_task(**changes: Any) -> Task:
    torch.manual_seed(8)
    given: dict[str, Any] = {
        "model": nn.Sequential(
            nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 3)
        ),
        "data": inputs(),
        "loss": F.cross_entropy,
        "optimizer": lambda parameters: AdamW(parameters, lr=1e-2),
        "batch_size": 8,
    }
    return Task(**{**given, **changes})


class Counting(nn.Module):
    """Keeps a number, and buffers that are not saved with the weights."""

    step: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.calls = 0
        self.register_buffer("step", torch.zeros(()), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        self.step += 1
        return self.layer(inputs) * (1 + 0.01 * self.calls + 0.1 * self.step)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(6, 8), nn.Linear(8, 3)


def recurrent_loss(model: Recurrent, batch: list[Tensor], state: Tensor) -> tuple[Tensor, Tensor]:
    rows = len(batch[0])
    state = torch.cat([model.cell(batch[0], state[:rows]), state[rows:]])
    return F.cross_entropy(model.head(state[:rows]), batch[1]), state


class Weighted(nn.Module):
    """A loss that is trained itself."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs * self.weight, targets)


def with_trained_loss() -> Task:
    loss = Weighted()

    def optimizer(parameters: Iterable[nn.Parameter]) -> Optimizer:
        return Adam([*parameters, *loss.parameters()], lr=1e-2)

    return make_task(loss=loss, optimizer=optimizer)


def two_optimizers(parameters: Iterable[nn.Parameter]) -> list[Optimizer]:
    several = list(parameters)
    return [SGD(several[:2], lr=0.1, momentum=0.9), RMSprop(several[2:], lr=1e-3, centered=True)]


def one_of(make: Callable[[Optimizer], Any], unit: str = "step") -> Callable[[], Task]:
    return lambda: make_task(scheduler=make, scheduler_unit=unit)


TASKS: dict[str, Callable[[], Task]] = {
    "plain": make_task,
    "counters and buffers": lambda: make_task(model=Counting()),
    "carried state": lambda: make_task(
        model=Recurrent(),
        loss=None,
        forward=recurrent_loss,
        initial_state=lambda: torch.zeros(8, 8),
    ),
    "trained loss": with_trained_loss,
    "two optimizers": lambda: make_task(optimizer=two_optimizers),
    "nesterov": lambda: make_task(
        optimizer=lambda p: SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-2)
    ),
    "amsgrad": lambda: make_task(optimizer=lambda p: AdamW(p, lr=1e-2, amsgrad=True)),
    "multi-step": one_of(lambda each: MultiStepLR(each, [3, 9], 0.5)),
    "one cycle": one_of(lambda each: OneCycleLR(each, 0.1, total_steps=40)),
    "lambda": one_of(lambda each: LambdaLR(each, lambda step: 0.9**step)),
    "per epoch": one_of(lambda each: ExponentialLR(each, 0.5), "epoch"),
    "sequence": one_of(
        lambda each: SequentialLR(each, [LinearLR(each), ExponentialLR(each, 0.9)], [5])
    ),
    "frozen": lambda: make_task(
        optimizer=lambda p: SGD(list(p)[:2], lr=0.1)  # the others' gradients add up
    ),
    "bfloat16": lambda: make_task(
        model=nn.Linear(6, 3).bfloat16(),
        data=(inputs()[0].bfloat16(), inputs()[1]),
    ),
}


def build(name: str) -> Task:
    torch.manual_seed(9)
    return TASKS[name]()


@pytest.mark.parametrize("stop", [STOP, 7])
@pytest.mark.parametrize("name", TASKS)
def test_two_parts_equal_the_whole(name: str, stop: int, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    fit(build(name), steps=STEPS, checkpoint_dir=whole)
    fit(build(name), steps=stop, checkpoint_dir=parts)
    summary = fit(build(name), steps=STEPS, checkpoint_dir=parts, resume=True)
    assert summary.resumed_from == stop
    assert same_bits(bits_at(whole, STEPS), bits_at(parts, STEPS))


@pytest.mark.parametrize("before", [NAIVE, Plan(parts={"fused_optimizer": {}})])
@pytest.mark.parametrize("after", [NAIVE, Plan(parts={"fused_optimizer": {}})])
def test_a_training_may_go_on_by_another_plan(before: Plan, after: Plan, tmp_path: Path) -> None:
    fit(make_task(), before, steps=STOP, checkpoint_dir=tmp_path)
    task = make_task()
    summary = fit(task, after, steps=STEPS, checkpoint_dir=tmp_path, resume=True)
    assert (summary.step, summary.resumed_from) == (STEPS, STOP)
    assert [each.outcome for each in summary.applied] == ["done"] * len(after.parts)


class Images(nn.Module):
    """Convolutions, blocks that repeat, and weights that are tied."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.read, self.write = nn.Linear(8, 8), nn.Linear(8, 8)
        self.write.weight = self.read.weight
        self.head = nn.Linear(8, 3)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.stem(images)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(self.write(torch.relu(self.read(hidden.mean((2, 3))))))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(2, 8)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + torch.relu(self.norm(self.convolution(hidden)))


ALL_TOGETHER = Plan(
    parts={
        "compile": {"backend": "aot_eager"},
        "memory_format": {},
        "activation_checkpointing": {},
        "mixed_precision": {"dtype": "bf16"},
    }
)


def test_weights_of_an_optimized_run_load_into_the_plain_model(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(3)
    images, labels = torch.randn(24, 3, 6, 6, generator=generator), torch.arange(24) % 3
    torch.manual_seed(1)
    task = make_task(model=Images(), data=(images, labels), evaluation_data=(images, labels))
    untrained = evaluate(task)["loss"]
    summary = fit(task, ALL_TOGETHER, steps=6, checkpoint_dir=tmp_path)
    assert {each.technique: each.outcome for each in summary.applied} == dict.fromkeys(
        ALL_TOGETHER.parts, "done"
    )
    plain = Images()
    path = tmp_path / "step-00000006" / "model.safetensors"
    plain.load_state_dict(load_file(path))
    assert plain.write.weight is plain.read.weight
    with torch.no_grad():
        assert torch.equal(plain(images), task.model(images))
    trained = make_task(model=plain, evaluation_data=(images, labels))
    assert evaluate(trained) == evaluate(task)
    assert evaluate(task)["loss"] != untrained


class Odd(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer(inputs)

    def get_extra_state(self) -> object:
        return {"version": 3}

    def set_extra_state(self, state: object) -> None: ...


def test_what_cannot_be_kept_is_said_before_the_first_step(tmp_path: Path) -> None:
    with pytest.raises(HastenError, match="The model keeps _extra_state, a dict"):
        fit(make_task(model=Odd()), steps=1, checkpoint_dir=tmp_path)
    assert not list(tmp_path.glob("step-*"))
    assert fit(make_task(model=Odd()), steps=1).step == 1
