"""The live parts of a run, from a task and from a loop."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import StepLR

from hasten.errors import HastenError
from hasten.task.batch import rows_in
from hasten.task.pipeline import Pipeline
from hasten.task.task import Task, training_device
from plain_loop import make_loader, make_model


def make_task(**changes: Any) -> Task:
    given: dict[str, Any] = {
        "model": make_model(),
        "data": make_loader(),
        "loss": F.cross_entropy,
        "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    }
    return Task(**{**given, **changes})


def test_a_pipeline_has_the_parts_of_its_task() -> None:
    state, count = (lambda: 3), (lambda batch: 7)
    task = make_task(
        loss=None,
        forward=lambda model, batch, state: (model(batch[0]).sum(), state),
        clip_norm=2.0,
        count=count,
        scheduler=lambda optimizer: StepLR(optimizer, 3),
        scheduler_unit="epoch",
        initial_state=state,
        couples_batch=True,
        batch_multiple_of=2,
    )
    pipeline = Pipeline.from_task(task)
    assert pipeline.model is task.model
    assert pipeline.loader is task.data
    assert pipeline.forward is task.forward
    assert pipeline.device == training_device()
    assert next(pipeline.model.parameters()).device.type == pipeline.device.type
    assert (pipeline.clip_norm, pipeline.count, pipeline.initial_state) == (2.0, count, state)
    assert (pipeline.couples_batch, pipeline.batch_multiple_of) == (True, 2)
    assert pipeline.scheduler_unit == "epoch"
    assert pipeline.schedulers[0].optimizer is pipeline.optimizers[0]


def test_rows_are_counted_where_the_task_says_nothing() -> None:
    pipeline = Pipeline.from_task(make_task())
    assert pipeline.count is rows_in
    assert pipeline.schedulers == []


def test_the_loss_of_a_task_becomes_the_forward() -> None:
    task = make_task()
    pipeline = Pipeline.from_task(task)
    pipeline.model.eval()
    inputs, target = (each.to(pipeline.device) for each in next(iter(make_loader())))
    expected = F.cross_entropy(pipeline.model(inputs), target)
    assert torch.equal(pipeline.forward(pipeline.model, (inputs, target)), expected)


def test_several_optimizers_each_get_a_scheduler() -> None:
    def two(parameters: Any) -> tuple[torch.optim.Optimizer, ...]:
        first, *others = list(parameters)
        return torch.optim.SGD([first], lr=0.1), torch.optim.Adam(others)

    pipeline = Pipeline.from_task(
        make_task(optimizer=two, scheduler=lambda optimizer: StepLR(optimizer, 3))
    )
    assert [type(each).__name__ for each in pipeline.optimizers] == ["SGD", "Adam"]
    assert [each.optimizer for each in pipeline.schedulers] == pipeline.optimizers


@pytest.mark.parametrize("made", [None, 0.1, [], ["adam"], torch.optim.SGD])
def test_what_is_no_optimizer_is_refused(made: Any) -> None:
    with pytest.raises(HastenError) as refusal:
        Pipeline.from_task(make_task(optimizer=lambda parameters: made))
    assert str(refusal.value) == (
        f"Task.optimizer returned {made!r}, not a torch optimizer. "
        "Return an optimizer, such as torch.optim.AdamW(parameters), or several."
    )


def test_a_pipeline_of_a_loop_stays_where_the_user_put_the_model() -> None:
    model, loader = nn.Linear(2, 1, device="meta"), make_loader()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = StepLR(optimizer, 3)
    pipeline = Pipeline.from_loop(
        model, loader, optimizer, F.mse_loss, clip_norm=3.0, scheduler=scheduler
    )
    assert pipeline.model is model
    assert pipeline.loader is loader
    assert pipeline.optimizers == [optimizer]
    assert pipeline.schedulers == [scheduler]
    assert pipeline.device == torch.device("meta")
    assert pipeline.clip_norm == 3.0
    assert pipeline.scheduler_unit == "step"


def test_a_loop_has_the_loss_of_input_and_target() -> None:
    model = make_model().eval()
    pipeline = Pipeline.from_loop(
        model, (), torch.optim.SGD(model.parameters(), lr=0.1), F.cross_entropy
    )
    inputs, target = next(iter(make_loader()))
    assert torch.equal(
        pipeline.forward(model, [inputs, target]), F.cross_entropy(model(inputs), target)
    )


def test_a_model_without_parameters_is_refused() -> None:
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
    with pytest.raises(HastenError, match="ReLU has no parameters"):
        Pipeline.from_loop(nn.ReLU(), (), optimizer, F.mse_loss)


def test_what_needs_an_argument_for_its_step_is_refused_at_once() -> None:
    model = nn.Linear(2, 1)
    lbfgs = torch.optim.LBFGS(model.parameters())
    with pytest.raises(HastenError, match="LBFGS computes the loss several times"):
        Pipeline.from_loop(model, (), lbfgs, nn.functional.mse_loss)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(sgd)
    with pytest.raises(HastenError, match="ReduceLROnPlateau steps by a metric"):
        Pipeline.from_loop(model, (), sgd, nn.functional.mse_loss, scheduler=plateau)
