"""The step engine against loops written by hand: the same to the bit."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, OneCycleLR, StepLR
from torch.utils.data import DataLoader, TensorDataset

from hasten.records.plan import NAIVE, Plan
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.task import Task
from hasten.techniques import registry
from plain_loop import make_loader, make_model, train_plainly
from torch_state import model_bits, optimizer_bits, random_settings

EPOCHS = 29  # of 7 steps: a good 200
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": functools.partial(torch.optim.SGD, lr=0.1),
    "momentum": functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01),
    "AdamW": functools.partial(torch.optim.AdamW, lr=0.01),
    "fused Adam": functools.partial(torch.optim.Adam, lr=0.01, fused=True),
    "RMSprop": functools.partial(torch.optim.RMSprop, lr=0.01),
    "tensor rate": lambda parameters: torch.optim.Adam(parameters, lr=torch.tensor(0.01)),
}


@pytest.fixture(autouse=True)
def _quick_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    yield
    torch._dynamo.reset()


def make_parts(
    make_optimizer: Callable[[Any], torch.optim.Optimizer] = OPTIMIZERS["AdamW"], **options: Any
) -> tuple[nn.Module, DataLoader[Any], torch.optim.Optimizer]:
    torch.manual_seed(2)
    model = make_model()
    return model, make_loader(**options), make_optimizer(model.parameters())


def train_run(run: Run, epochs: int) -> list[float]:
    return [float(run.step(batch)) for _ in range(epochs) for batch in run.epoch()]


def outcome(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[Any]:
    """All that a training leaves behind."""
    return [model_bits(model)["tensors"], optimizer_bits(optimizer), random_settings()]


# THE BAR: the empty plan is the raw loop.


@pytest.mark.parametrize("make_optimizer", OPTIMIZERS.values(), ids=list(OPTIMIZERS))
@pytest.mark.parametrize("unit", ["none", "step", "epoch"])
def test_the_empty_plan_is_the_raw_loop_to_the_bit(
    make_optimizer: Callable[[Any], torch.optim.Optimizer], unit: str
) -> None:
    model, loader, optimizer = make_parts(make_optimizer)
    each_step = CosineAnnealingLR(optimizer, 150) if unit == "step" else None
    each_epoch = StepLR(optimizer, 5, gamma=0.7) if unit == "epoch" else None
    losses = train_plainly(
        model,
        loader,
        optimizer,
        epochs=EPOCHS,
        clip_norm=0.5,
        each_step=each_step,
        each_epoch=each_epoch,
    )
    expected = outcome(model, optimizer)
    assert len(losses) > 200

    model, loader, optimizer = make_parts(make_optimizer)
    pipeline = Pipeline.from_loop(model, loader, optimizer, F.cross_entropy, clip_norm=0.5)
    if unit == "step":
        pipeline.schedulers = [CosineAnnealingLR(optimizer, 150)]
    if unit == "epoch":
        pipeline.schedulers, pipeline.scheduler_unit = [StepLR(optimizer, 5, gamma=0.7)], "epoch"
    assert train_run(Run(pipeline), EPOCHS) == losses
    assert outcome(model, optimizer) == expected


def test_a_loop_over_the_dataloader_is_a_loop_over_epochs() -> None:
    outcomes = []
    for by_epoch in (True, False):
        model, loader, optimizer = make_parts()
        run = Run(Pipeline.from_loop(model, loader, optimizer, F.cross_entropy))
        for _ in range(3):
            for batch in run.epoch() if by_epoch else run.dataloader:
                run.step(batch)
        outcomes.append(outcome(model, optimizer))
    assert outcomes[0] == outcomes[1]


def test_a_task_trains_as_its_parts_would() -> None:
    model, loader, optimizer = make_parts()
    losses = train_plainly(model, loader, optimizer, epochs=3, clip_norm=0.5)
    torch.manual_seed(2)
    task = Task(
        model=make_model(),
        data=make_loader(),
        loss=F.cross_entropy,
        optimizer=OPTIMIZERS["AdamW"],
        clip_norm=0.5,
    )
    pipeline = Pipeline.from_task(task)
    run = Run(pipeline)
    if pipeline.device.type != "cpu":
        pytest.skip("the raw loop of this test runs on the CPU")
    assert train_run(run, 3) == losses


def test_several_optimizers_each_take_their_step() -> None:
    def make_two(model: nn.Module) -> list[torch.optim.Optimizer]:
        first, *others = model.parameters()
        return [torch.optim.SGD([first], lr=0.1), torch.optim.Adam(others, lr=0.02)]

    def make_schedulers(optimizers: list[torch.optim.Optimizer]) -> list[LRScheduler]:
        return [OneCycleLR(each, max_lr=0.2, total_steps=60) for each in optimizers]

    model, loader, _ = make_parts()
    optimizers = make_two(model)
    schedulers = make_schedulers(optimizers)
    losses = []
    for _ in range(5):
        for inputs, target in loader:
            for each in optimizers:
                each.zero_grad()
            loss = F.cross_entropy(model(inputs), target)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for each in optimizers:
                each.step()
            for scheduler in schedulers:
                scheduler.step()
            losses.append(loss.item())
    expected = model_bits(model)["tensors"]

    model, loader, optimizer = make_parts()
    pipeline = Pipeline.from_loop(model, loader, optimizer, F.cross_entropy, clip_norm=1.0)
    pipeline.optimizers = make_two(model)
    pipeline.schedulers = make_schedulers(pipeline.optimizers)
    assert train_run(Run(pipeline), 5) == losses
    assert model_bits(model)["tensors"] == expected


# Carried state.


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(4, 8, batch_first=True)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(8, 1)

    def forward(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        hidden, state = self.cell(inputs, state)
        return self.head(self.drop(hidden)), state


def random_start() -> tuple[Tensor, Tensor]:
    return torch.randn(1, 5, 8), torch.randn(1, 5, 8)


def zero_start() -> tuple[Tensor, Tensor]:
    return torch.zeros(1, 5, 8), torch.zeros(1, 5, 8)


def make_recurrent() -> tuple[Recurrent, DataLoader[Any], torch.optim.Optimizer]:
    torch.manual_seed(6)
    model = Recurrent()
    data = TensorDataset(torch.randn(40, 3, 4), torch.randn(40, 3, 1))
    loader = DataLoader(data, batch_size=5, shuffle=True)
    return model, loader, torch.optim.Adam(model.parameters(), lr=0.01)


def recurrent_loss(model: nn.Module, batch: Any, state: Any) -> tuple[Tensor, Any]:
    output, state = model(batch[0], state)
    return F.mse_loss(output, batch[1]), state


def make_recurrent_pipeline(start: Callable[[], Any]) -> Pipeline:
    model, loader, optimizer = make_recurrent()
    return Pipeline(
        model=model,
        loader=loader,
        optimizers=[optimizer],
        forward=recurrent_loss,
        device=torch.device("cpu"),
        clip_norm=0.5,
        initial_state=start,
    )


@pytest.mark.parametrize("start", [zero_start, random_start])
def test_carried_state_is_cut_between_batches_and_made_anew_each_epoch(
    start: Callable[[], Any],
) -> None:
    model, loader, optimizer = make_recurrent()
    losses = []
    for _ in range(4):
        state = start()
        for inputs, target in loader:
            optimizer.zero_grad()
            output, (hidden, cell) = model(inputs, state)
            state = hidden.detach(), cell.detach()
            loss = F.mse_loss(output, target)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            losses.append(loss.item())
    expected = outcome(model, optimizer)

    pipeline = make_recurrent_pipeline(start)
    assert train_run(Run(pipeline), 4) == losses
    assert outcome(pipeline.model, pipeline.optimizers[0]) == expected


def test_state_is_there_for_a_step_outside_an_epoch() -> None:
    losses = []
    for explicitly in (True, False):
        pipeline = make_recurrent_pipeline(zero_start)
        run = Run(pipeline)
        batch = next(iter(pipeline.loader))
        if explicitly:
            run.start_epoch()
        losses.append(float(run.step(batch)))
    assert losses[0] == losses[1]
    assert all(bool(each.any()) for each in pipeline.carried_state)
    assert not any(each.requires_grad for each in pipeline.carried_state)
    run.start_epoch()
    assert not any(bool(each.any()) for each in pipeline.carried_state)


def test_making_a_run_calls_nothing_of_the_users() -> None:
    called: list[str] = []

    def start() -> Any:
        called.append("state")
        return zero_start()

    pipeline = make_recurrent_pipeline(start)
    before = random_settings(), model_bits(pipeline.model)
    Run(pipeline)
    assert called == []
    assert (random_settings(), model_bits(pipeline.model)) == before


# The parts of a step, epochs, losses.


def test_the_parts_of_a_step_are_the_step() -> None:
    outcomes = []
    for whole in (True, False):
        model, loader, optimizer = make_parts()
        run = Run(Pipeline.from_loop(model, loader, optimizer, F.cross_entropy, clip_norm=0.5))
        for batch in run.epoch():
            if whole:
                run.step(batch)
            else:
                run.zero_grad()
                run.forward(run.transfer(batch)).backward()
                run.update()
        outcomes.append(outcome(model, optimizer))
    assert outcomes[0] == outcomes[1]


def test_the_loss_of_a_step_holds_no_graph() -> None:
    model, loader, optimizer = make_parts()
    loss = Run(Pipeline.from_loop(model, loader, optimizer, F.cross_entropy)).step(
        next(iter(loader))
    )
    assert loss.grad_fn is None
    assert not loss.requires_grad


def test_an_epoch_that_is_broken_off_does_not_step_the_epochs_scheduler() -> None:
    model, loader, optimizer = make_parts()
    pipeline = Pipeline.from_loop(
        model, loader, optimizer, F.cross_entropy, scheduler=StepLR(optimizer, 1, gamma=0.5)
    )
    pipeline.scheduler_unit = "epoch"
    run = Run(pipeline)
    for batch in run.epoch():
        run.step(batch)
        break
    assert optimizer.param_groups[0]["lr"] == 0.01
    for batch in run.epoch():
        run.step(batch)
    assert optimizer.param_groups[0]["lr"] == 0.005


def test_endless_batches_go_on_epoch_after_epoch() -> None:
    _, loader, _ = make_parts()
    model, _, optimizer = make_parts()
    run = Run(Pipeline.from_loop(model, loader, optimizer, F.cross_entropy))
    rows = [len(batch[0]) for _, batch in zip(range(16), run.endless(), strict=False)]
    assert rows == [8, 8, 8, 8, 8, 8, 2] * 2 + [8, 8]


def test_a_run_shows_the_users_own_objects() -> None:
    model, loader, optimizer = make_parts()
    run = Run(Pipeline.from_loop(model, loader, optimizer, F.cross_entropy))
    assert run.model is model
    assert run.dataloader is loader
    assert run.optimizer is optimizer
    assert (run.plan, run.applied, run.effects) == (NAIVE, [], [])


# Plans.

BITWISE = [registry.get_technique(name) for name in ("batched_loader", "late_readings")]
"""That apply to a plain network; tests/techniques holds each of them to its rung."""


@pytest.mark.parametrize("technique", BITWISE, ids=lambda technique: technique.name)
@pytest.mark.parametrize("unit", ["step", "epoch"])
def test_a_bitwise_technique_trains_to_the_same_bits(technique: Any, unit: str) -> None:
    outcomes, losses = [], []
    for plan in (NAIVE, Plan(parts={technique.name: {}})):
        model, loader, optimizer = make_parts()
        pipeline = Pipeline.from_loop(
            model,
            loader,
            optimizer,
            F.cross_entropy,
            clip_norm=0.5,
            scheduler=StepLR(optimizer, 4, gamma=0.9),
        )
        pipeline.scheduler_unit = "step" if unit == "step" else "epoch"
        run = Run(pipeline, plan)
        losses.append(train_run(run, 5))
        assert all(each.outcome == "done" for each in run.applied)
        assert len(run.effects) == len(plan.parts)
        outcomes.append(outcome(model, optimizer))
    assert losses[0] == losses[1]
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("technique", BITWISE, ids=lambda technique: technique.name)
@pytest.mark.parametrize("undo_at", [(1, 0), (2, 3)], ids=["between epochs", "within an epoch"])
def test_undone_midway_a_bitwise_technique_goes_on_as_the_raw_loop(
    technique: Any, undo_at: tuple[int, int]
) -> None:
    model, loader, optimizer = make_parts()
    losses = train_plainly(model, loader, optimizer, epochs=5)
    expected = outcome(model, optimizer)

    model, loader, optimizer = make_parts()
    pipeline = Pipeline.from_loop(model, loader, optimizer, F.cross_entropy)
    run = Run(pipeline, Plan(parts={technique.name: {}}))
    found = []
    for epoch in range(5):
        for index, batch in enumerate(run.epoch()):
            if (epoch, index) == undo_at:
                run.undo()
            found.append(float(run.step(batch)))
    assert found == losses
    assert outcome(model, optimizer) == expected
    assert pipeline.loader is loader
    assert (run.plan, run.effects) == (NAIVE, [])


def test_a_whole_plan_is_applied_in_order_and_undone() -> None:
    model, loader, optimizer = make_parts()
    pipeline = Pipeline.from_loop(model, loader, optimizer, F.cross_entropy)
    compiled = {"backend": "aot_eager"}
    plan = Plan(parts={"fused_optimizer": {}, "compile": compiled, "batched_loader": {}})
    torch._dynamo.reset()
    run = Run(pipeline, plan)
    train_run(run, 2)
    assert [str(each) for each in run.applied] == [
        "batched_loader: done (batches of 8 gathered at once)",
        "compile: done (whole model, mode default, backend aot_eager: 1 new graph, 0 breaks)",
        "fused_optimizer: done (AdamW fused)",
    ]
    assert run.plan == plan
    run.undo()
    assert pipeline.loader is loader
    assert model._compiled_call_impl is None
    assert optimizer.param_groups[0]["fused"] is None
