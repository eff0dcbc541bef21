"""A model in evaluation: what is called, and what of a plan is left of it."""

import dataclasses

import pytest
import torch
from torch import Tensor, nn

from hasten.errors import HastenError
from hasten.measure import reference
from hasten.measure.evaluation import Evaluation, techniques_in_evaluation
from hasten.records.plan import NAIVE, Plan
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.task import Task


class Seeing(nn.Module):
    """Notes how it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)
        self.calls: list[tuple[int, bool, bool]] = []

    def forward(self, rows: Tensor) -> Tensor:
        self.calls.append((len(rows), self.training, torch.is_inference_mode_enabled()))
        output: Tensor = self.layer(rows)
        return output


def make_task(model: nn.Module) -> Task:
    return Task(
        model=model,
        data=(torch.randn(64, 8), torch.randint(0, 4, (64,))),
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        batch_size=16,
    )


@pytest.mark.parametrize(("asked", "rows"), [(1, 1), (0, 16), (4, 4), (99, 16)])
def test_a_call_is_of_so_many_rows_in_evaluation_mode(asked: int, rows: int) -> None:
    model = Seeing()
    evaluation = Evaluation(make_task(model), NAIVE, asked)
    assert model.calls == [(16, True, False)], "one step is trained first"
    evaluation.warm(2)
    block = evaluation.time_block(3)
    assert block.rows == 3 * rows
    assert block.elapsed_s > 0
    assert set(model.calls[1:]) == {(rows, False, True)}
    read = evaluation.read()
    assert (read.rows, len(read.seconds), read.with_loss) == (rows, 3, False)
    assert len(model.calls) == 1 + (1 + 2) + (1 + 3 + 1 + 3)


def test_the_loss_is_computed_where_it_is_trained_and_not_where_calls_are_timed() -> None:
    losses = []

    def loss(output: Tensor, target: Tensor) -> Tensor:
        losses.append(len(output))
        return nn.functional.cross_entropy(output, target)

    task = dataclasses.replace(make_task(nn.Linear(8, 4)), loss=loss)
    evaluation = Evaluation(task, NAIVE, 1)
    evaluation.warm(1)
    evaluation.time_block(2)
    assert losses == [16]


def test_a_forward_of_the_tasks_own_is_called_as_it_is_and_said_so() -> None:
    task = dataclasses.replace(
        make_task(nn.Linear(8, 4)), loss=None, forward=lambda model, batch: model(batch[0]).sum()
    )
    evaluation = Evaluation(task, NAIVE, 1)
    evaluation.time_block(1)
    assert evaluation.read().with_loss


def test_pairs_stay_together() -> None:
    task = dataclasses.replace(make_task(nn.Linear(8, 4)), batch_multiple_of=2)
    assert Evaluation(task, NAIVE, 1).read().rows == 2


def test_a_compiled_model_answers_compiled_at_the_size_that_is_asked_for() -> None:
    plan = Plan(parts={"compile": {"backend": "eager"}})
    evaluation = Evaluation(make_task(nn.Linear(8, 4)), plan, 1)
    (before,) = (each.why for each in evaluation.run.applied)
    evaluation.warm(1)
    (after,) = (each.why for each in evaluation.run.applied)
    assert "1 new graph," in before
    assert "2 new graphs" in after, "one of them for calls of one row"


def test_a_model_that_carries_a_state_is_refused() -> None:
    task = dataclasses.replace(
        make_task(nn.Linear(8, 4)),
        loss=None,
        forward=lambda model, batch, state: (model(batch[0]).sum(), state),
        initial_state=lambda: torch.zeros(1),
    )
    with pytest.raises(HastenError, match="carries a state from batch to batch"):
        Evaluation(task, NAIVE, 1)


def test_what_feeds_or_trains_a_model_does_not_act_on_one_in_evaluation() -> None:
    acting = techniques_in_evaluation()
    assert {"compile", "mixed_precision", "memory_format", "attention"} <= set(acting)
    assert not {"batched_loader", "fused_optimizer", "whole_step_graph"} & set(acting)
    assert "activation_checkpointing" not in acting


def test_the_reference_is_a_training_that_learns() -> None:
    torch.manual_seed(0)
    run = Run(Pipeline.from_task(reference.make_task()))
    batches = run.endless()
    losses = [float(run.step(next(batches))) for _ in range(48)]
    assert sum(losses[-16:]) < sum(losses[:16])
