"""What a checkpoint keeps: a training in two parts is the training in one, to the bit."""

import random
from collections.abc import Callable, Iterable, Iterator
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
from torch.utils.data import DataLoader, TensorDataset, default_collate

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


class Remembering(nn.Module):
    """Keeps all kinds of things from step to step."""

    late: Tensor | None
    table: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.seen: list[float] = []
        self.counts = {"calls": 0}
        self.average = torch.zeros(3)
        self.generator = torch.Generator().manual_seed(1)
        self.last: float | None = 1.0
        self.register_buffer("late", None, persistent=False)
        self.register_buffer("table", torch.zeros(4, 3), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.layer(inputs)
        self.counts["calls"] += 1
        self.seen.append(float(output.detach().mean()))
        self.average = 0.9 * self.average + output.detach().mean(0)
        if self.counts["calls"] == 2:
            self.late, self.table, self.last = torch.ones(3), torch.ones(1, 3), None
            self.layer.bias.requires_grad_(False)
        noise = torch.rand((), generator=self.generator)
        output = output + 0.1 * self.average + 0.01 * sum(self.seen) + 0.1 * noise
        output = output + 0.1 * self.table.mean() + (0.1 if self.last is None else 0.0)
        return output if self.late is None else output * (1 + 0.1 * self.late)


class Adapted(nn.Module):
    """Saves a part of its weights only, and copies of them."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.adapter = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.adapter(self.base(inputs))
        return output

    def state_dict(self, *args: Any, **options: Any) -> Any:
        held = super().state_dict(*args, **options)
        return {key: value.clone() for key, value in held.items() if "adapter" in key}


class Centered(nn.Module):
    """A loss that keeps a running mean."""

    center: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(3))
        self.calls = 0

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        self.calls += 1
        self.center = 0.9 * self.center + 0.1 * outputs.detach().mean(0)
        return F.cross_entropy(outputs - self.center * self.calls, targets)


class Slowing(SGD):
    """Keeps a number of its own."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        super().__init__(parameters, lr=0.1)
        self.done = 0

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.done += 1
        self.param_groups[0]["lr"] = 0.1 / self.done
        super().step(closure)


def jittered(items: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """A collate_fn that draws random numbers, as one that crops or mixes does."""
    rows, targets = default_collate(items)
    return rows * (1 + 0.1 * torch.rand(len(rows), 1)) + 0.1 * random.random(), targets


class NowAndThen(TensorDataset):
    """Its first item is as it is, and others draw random numbers."""

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        row, target = super().__getitem__(index)
        return row + (torch.rand(6) if index % 5 else 0), target


def loading(**changes: Any) -> Task:
    given = {"dataset": TensorDataset(*inputs()), "batch_size": 8, "shuffle": True}
    return make_task(data=DataLoader(**{**given, **changes}), batch_size=None)


TASKS: dict[str, Callable[[], Task]] = {
    "random collate_fn": lambda: loading(collate_fn=jittered),
    "random collate_fn, own sampler": lambda: loading(
        collate_fn=jittered,
        batch_sampler=[[*range(place, min(ROWS, place + 8))] for place in range(0, ROWS, 8)],
        batch_size=1,
        shuffle=False,
    ),
    "random collate_fn in workers": lambda: loading(collate_fn=jittered, num_workers=1),
    "random items but the first": lambda: loading(dataset=NowAndThen(*inputs())),
    "remembering": lambda: make_task(model=Remembering()),
    "adapted": lambda: make_task(model=Adapted()),
    "centered loss": lambda: make_task(loss=Centered()),
    "slowing": lambda: make_task(optimizer=Slowing),
    "workers that live on": lambda: make_task(
        data=DataLoader(
            TensorDataset(*inputs()),
            batch_size=8,
            shuffle=True,
            num_workers=1,
            persistent_workers=True,
        ),
        batch_size=None,
    ),
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
    compare_parts(lambda: build(name), NAIVE, {"steps": stop}, tmp_path)


def compare_parts(make: Callable[[], Task], plan: Plan, stop: dict[str, Any], folder: Path) -> None:
    whole, parts = folder / "whole", folder / "parts"
    fit(_fresh(make), plan, steps=STEPS, checkpoint_dir=whole)
    done = fit(_fresh(make), plan, checkpoint_dir=parts, **stop)
    summary = fit(_fresh(make), plan, steps=STEPS, checkpoint_dir=parts, resume=True)
    assert summary.resumed_from == done.step
    assert {each.outcome for each in summary.applied} <= {"done"}
    assert same_bits(bits_at(whole, STEPS), bits_at(parts, STEPS))


_loaders: list[DataLoader[Any]] = []


def _fresh(make: Callable[[], Task]) -> Task:
    task = make()
    if isinstance(task.data, DataLoader):
        _loaders.append(task.data)
    return task


@pytest.fixture(autouse=True)
def _no_workers_live_on() -> Iterator[None]:
    yield
    while _loaders:
        _loaders.pop()._iterator = None


@pytest.mark.parametrize("name", [name for name in TASKS if name.startswith("random")])
@pytest.mark.parametrize("stop", [1, 3])
def test_batches_that_draw_are_drawn_anew_within_the_first_epoch(
    name: str, stop: int, tmp_path: Path
) -> None:
    compare_parts(lambda: build(name), NAIVE, {"steps": stop}, tmp_path)


@pytest.mark.parametrize("stop", [5, 6, 7, 8])
@pytest.mark.parametrize(
    "parts",
    [
        {"gradient_accumulation": {"steps": 2}},
        {"compile": {"backend": "aot_eager"}},
        {"gradient_accumulation": {"steps": 2}, "mixed_precision": {"dtype": "fp16"}},
    ],
)
def test_what_a_technique_learnt_from_batches_is_kept(
    parts: dict[str, Any], stop: int, tmp_path: Path
) -> None:
    """The seventh batch has two rows: too few to learn from."""
    model = nn.Linear  # without BatchNorm, which batches that are split would miss
    compare_parts(lambda: build_of(model(6, 3)), Plan(parts=parts), {"steps": stop}, tmp_path)


def build_of(model: nn.Module) -> Task:
    torch.manual_seed(9)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return make_task(model=model)


@pytest.mark.parametrize("name", ["workers that live on", "per epoch", "plain"])
def test_epochs_may_be_added(name: str, tmp_path: Path) -> None:
    compare_parts(lambda: build(name), NAIVE, {"epochs": 1}, tmp_path)


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
