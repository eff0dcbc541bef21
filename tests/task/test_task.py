"""The contract of a task: what it refuses, the loader and the loss that it gives."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from hasten.errors import HastenError
from hasten.task.task import Task, as_dataset, loss_of_pair, training_device

INPUTS, TARGETS = torch.arange(20.0).reshape(10, 2), torch.arange(10.0).reshape(10, 1)


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        yield from INPUTS


def make_task(**changes: Any) -> Task:
    given: dict[str, Any] = {
        "model": nn.Linear(2, 1),
        "data": (INPUTS, TARGETS),
        "loss": F.mse_loss,
        "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        "batch_size": 4,
    }
    return Task(**{**given, **changes})


def loader_of(batch_size: int) -> DataLoader[Any]:
    return DataLoader(TensorDataset(INPUTS, TARGETS), batch_size=batch_size)


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "a model's class": (
        {"model": nn.Linear},
        "Task.model is a type, not a torch.nn.Module. Pass the model object, built.",
    ),
    "no loss": (
        {"loss": None},
        "Task needs loss or forward, one of the two, and neither is given. "
        "Give loss(output, target), or forward(model, batch) that returns the loss.",
    ),
    "two losses": (
        {"forward": lambda model, batch: model(batch).sum()},
        "Task needs loss or forward, one of the two, and both is given. "
        "Give loss(output, target), or forward(model, batch) that returns the loss.",
    ),
    "state that nothing takes": (
        {"initial_state": lambda: None},
        "Task.initial_state is given without forward. "
        "Give forward(model, batch, state) that returns the loss and the next state.",
    ),
    "another batch size than the loader's": (
        {"data": loader_of(5), "batch_size": 4},
        "batch_size=4 is not the DataLoader's 5. "
        "Leave Task.batch_size out; the DataLoader's is used.",
    ),
    "no batch size": (
        {"batch_size": None},
        "Task.batch_size=None gives no batches. Set it to the rows of one optimizer step, 1 or "
        "more.",
    ),
    "a batch size of zero": (
        {"batch_size": 0},
        "Task.batch_size=0 gives no batches. Set it to the rows of one optimizer step, 1 or more.",
    ),
    "multiples of nothing": (
        {"batch_multiple_of": 0},
        "Task.batch_multiple_of=0 is not possible. Use 1, or 2 for a loss over pairs.",
    ),
    "a misspelt unit": (
        {"scheduler_unit": "epochs"},
        "Task.scheduler_unit='epochs' is not a unit. Use 'step' or 'epoch'.",
    ),
    "the shuffling of a stream": (
        {"data": Stream()},
        "Task.shuffle=True, and the stream Stream has its own order. Set shuffle=False.",
    ),
}


@pytest.mark.parametrize(("changes", "message"), REFUSALS.values(), ids=list(REFUSALS))
def test_a_task_that_cannot_be_trained_is_refused_with_what_to_do(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(HastenError) as refusal:
        make_task(**changes)
    assert str(refusal.value) == message


def test_a_task_is_not_changed_after_it_is_made() -> None:
    task = make_task()
    with pytest.raises(dataclasses.FrozenInstanceError):
        task.batch_size = 5  # type: ignore[misc]


def batches_and_random_state(loader: DataLoader[Any]) -> tuple[list[list[Tensor]], Tensor]:
    torch.manual_seed(3)
    batches = [batch for _ in range(2) for batch in loader]
    return batches, torch.get_rng_state()


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("data", [(INPUTS, TARGETS), TensorDataset(INPUTS, TARGETS)])
def test_the_loader_of_a_task_is_the_plain_one(data: Any, shuffle: bool) -> None:
    loader = make_task(data=data, shuffle=shuffle).make_loader()
    plain = DataLoader(TensorDataset(INPUTS, TARGETS), batch_size=4, shuffle=shuffle)
    found, found_state = batches_and_random_state(loader)
    expected, expected_state = batches_and_random_state(plain)
    assert len(found) == len(expected) == 6
    for batch, other in zip(found, expected, strict=True):
        assert torch.equal(batch[0], other[0])
        assert torch.equal(batch[1], other[1])
    assert torch.equal(found_state, expected_state)


def test_shuffled_batches_differ_from_the_order_of_the_data() -> None:
    torch.manual_seed(0)
    first = next(iter(make_task().make_loader()))[0]
    assert not torch.equal(first, INPUTS[:4])


@pytest.mark.parametrize("batch_size", [None, 5])
def test_a_loader_of_the_user_is_used_as_it_is(batch_size: int | None) -> None:
    loader = loader_of(5)
    assert make_task(data=loader, batch_size=batch_size).make_loader() is loader


def test_a_stream_is_loaded_in_its_own_order() -> None:
    batches = list(make_task(data=Stream(), shuffle=False).make_loader())
    assert torch.equal(torch.cat(batches), INPUTS)


@pytest.mark.parametrize("data", [[1, 2, 3], (), "rows", (INPUTS, [1.0])])
def test_what_is_not_training_data_is_refused(data: Any) -> None:
    with pytest.raises(HastenError, match=f"Task.data is a {type(data).__name__}, which is not"):
        make_task(data=data).make_loader()


@pytest.mark.parametrize("targets", [TARGETS[:9], torch.tensor(1.0)])
def test_tensors_of_unequal_length_are_refused(targets: Tensor) -> None:
    with pytest.raises(HastenError, match="equal first dimension"):
        as_dataset((INPUTS, targets))


def test_the_loss_is_that_of_the_output_and_the_target() -> None:
    task = make_task()
    assert torch.equal(
        task.compute_loss(task.model, [INPUTS, TARGETS]), F.mse_loss(task.model(INPUTS), TARGETS)
    )


def test_a_forward_of_the_user_gets_the_whole_batch() -> None:
    task = make_task(loss=None, forward=lambda model, batch: model(batch["bits"]).sum())
    assert torch.equal(task.compute_loss(task.model, {"bits": INPUTS}), task.model(INPUTS).sum())


@pytest.mark.parametrize(
    ("batch", "shape"),
    [
        (INPUTS, "a Tensor"),
        ((INPUTS, TARGETS, TARGETS), "a tuple of 3"),
        ([INPUTS], "a list of 1"),
        ({"a": INPUTS, "b": TARGETS}, "a dict"),
    ],
)
def test_a_batch_that_is_no_pair_is_refused_with_its_shape(batch: Any, shape: str) -> None:
    with pytest.raises(HastenError, match=rf"this one is {shape}\. Give the task forward"):
        loss_of_pair(F.mse_loss, nn.Linear(2, 1), batch)


def test_a_task_trains_on_the_accelerator_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: None)
    assert training_device() == torch.device("cpu")
    found = torch.device("meta")
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: found)
    assert training_device() == found
