"""The task's own metrics, taken without disturbing the training."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, TensorDataset

from hasten.errors import HastenError
from hasten.runtime.evaluate import evaluate
from hasten.task.task import Metric, Task
from plain_loop import make_dataset, make_loader, make_model
from torch_state import model_bits, random_settings, torch_settings

INPUTS, TARGETS = make_dataset().tensors


def accuracy(outputs: Tensor, targets: Tensor) -> Tensor:
    assert not torch.is_grad_enabled()
    return (outputs.argmax(1) == targets).float().mean()


def row_count(outputs: Tensor, targets: Tensor) -> Tensor:
    assert outputs.shape == (len(targets), 3)
    return torch.tensor(len(targets))


def make_task(**changes: Any) -> Task:
    torch.manual_seed(1)
    given: dict[str, Any] = {
        "model": make_model(),
        "data": make_dataset(),
        "batch_size": 8,
        "loss": F.cross_entropy,
        "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        "evaluation_data": (INPUTS[:37], TARGETS[:37]),
        "metrics": {
            "accuracy": Metric(compute=accuracy, higher_is_better=True),
            "rows": Metric(compute=row_count, higher_is_better=True),
        },
    }
    return Task(**{**given, **changes})


def by_hand(model: nn.Module) -> float:
    model.eval()
    with torch.no_grad():
        found = float((model(INPUTS[:37]).argmax(1) == TARGETS[:37]).float().mean())
    model.train()
    return found


def test_metrics_are_over_all_rows_in_evaluation_mode() -> None:
    task = make_task()
    found = evaluate(task)
    loss = found.pop("loss")
    assert found == {"accuracy": by_hand(task.model.cpu()), "rows": 37.0}
    task.model.eval()
    with torch.no_grad():
        expected = F.cross_entropy(task.model(INPUTS[:37]), TARGETS[:37])
    assert loss == pytest.approx(float(expected))


def test_the_loss_needs_no_metrics_and_is_weighted_by_the_count() -> None:
    def forward(model: nn.Module, batch: list[Tensor]) -> Tensor:
        inputs, targets = batch
        return F.cross_entropy(model(inputs)[:, :3], targets)

    task = make_task(metrics={}, loss=None, forward=forward)
    told: list[int] = []
    found = evaluate(task, told.append)
    assert found == pytest.approx({"loss": evaluate(make_task())["loss"]})
    assert told == [1, 2, 3, 4, 5]  # of 8, the last of 5


@pytest.mark.parametrize(
    "data",
    [
        TensorDataset(INPUTS[:37], TARGETS[:37]),
        DataLoader(TensorDataset(INPUTS[:37], TARGETS[:37]), batch_size=5, shuffle=True),
    ],
    ids=["dataset", "loader"],
)
def test_evaluation_data_may_be_given_in_any_form(data: Any) -> None:
    task = make_task(evaluation_data=data)
    assert evaluate(task) == pytest.approx(evaluate(make_task()))


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 5},
        {
            "batch_size": 1,
            "shuffle": None,
            "batch_sampler": BatchSampler(SequentialSampler(range(50)), 4, False),
        },
    ],
    ids=["batch size", "batch sampler"],
)
def test_a_task_with_a_loader_of_its_own_is_evaluated_in_batches(options: dict[str, Any]) -> None:
    task = make_task(data=make_loader(**options), batch_size=None)
    assert evaluate(task) == pytest.approx(evaluate(make_task()))


def test_evaluating_disturbs_neither_the_model_nor_the_training() -> None:
    task = make_task(evaluation_data=DataLoader(make_dataset(), batch_size=9, shuffle=True))
    task.model[1].eval()  # type: ignore[operator]  # as a user freezes BatchNorm
    before = model_bits(task.model), random_settings(), torch_settings()
    evaluate(task)
    assert (model_bits(task.model), random_settings(), torch_settings()) == before


class Counting(nn.Module):
    """Moves a number and a buffer whatever its mode is."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = make_model()
        self.calls = 0
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        self.seen += 1
        output: Tensor = self.layer(inputs)
        return output


def test_what_a_model_counts_is_not_moved() -> None:
    task = make_task(model=Counting())
    evaluate(task)
    assert isinstance(task.model, Counting)
    assert (task.model.calls, float(task.model.seen)) == (0, 0.0)


def test_a_metric_that_raises_disturbs_nothing_either() -> None:
    def fail(outputs: Tensor, targets: Tensor) -> Tensor:
        torch.rand(3)
        raise ZeroDivisionError

    task = make_task(metrics={"bad": Metric(compute=fail, higher_is_better=True)})
    before = model_bits(task.model), random_settings()
    with pytest.raises(ZeroDivisionError):
        evaluate(task)
    assert (model_bits(task.model), random_settings()) == before


def test_a_task_without_evaluation_data_is_refused() -> None:
    with pytest.raises(HastenError, match="no evaluation data"):
        evaluate(make_task(evaluation_data=None))


def test_batches_that_are_no_pairs_are_refused() -> None:
    task = make_task(evaluation_data=(INPUTS, TARGETS, TARGETS))
    with pytest.raises(HastenError, match=r"needs batches of \(input, target\), .* a list of 3"):
        evaluate(task)
