"""Which steps a trace takes of which epochs."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from hasten.measure import cutting
from hasten.measure.cutting import cut
from hasten.runtime.run import Run
from hasten.task import batch as batches
from hasten.task.pipeline import Pipeline


def _run(rows: int) -> Run:
    loader = DataLoader(TensorDataset(torch.randn(rows, 4), torch.randn(rows, 1)), batch_size=8)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Run(Pipeline.from_loop(model, loader, optimizer, nn.functional.mse_loss))


def _shapes(rows: int, epoch: int | None = None) -> list[tuple[bool, list[int]]]:
    found = cut(_run(rows), "mean", epoch)
    return [
        (step.begins_epoch, [batches.rows_in(piece) for piece, _ in step.pieces])
        for step in found.steps
    ]


def test_the_end_of_an_epoch_is_taken_whole_and_the_next_begins() -> None:
    assert _shapes(7 * 8 + 3) == [
        (True, [8]),
        (False, [5, 3]),
        (False, [8]),
        (False, [5, 3]),
        (False, [3]),
        (True, [8]),
        (False, [5, 3]),
        (False, [8]),
    ]


@pytest.mark.parametrize(("rows", "epochs"), [(8, 4), (11, 2), (24, 2)])
def test_short_epochs_are_gone_through_until_there_are_enough_steps(rows: int, epochs: int) -> None:
    shapes = _shapes(rows)
    assert sum(begins for begins, _ in shapes) == epochs
    assert len(shapes) >= cutting.BEFORE


def test_an_epoch_that_does_not_end_is_left_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "EDGE_LIMIT_S", 0.0)
    found = cut(_run(80), "mean")
    assert (len(found.steps), found.epoch) == (cutting.BEFORE, 0)
    assert _shapes(80, epoch=0) == [(True, [8]), (False, [5, 3]), (False, [8]), (False, [5, 3])]


def test_the_other_side_goes_as_far_as_the_first_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "EDGE_LIMIT_S", 0.0)
    assert cut(_run(80), "mean", epoch=10).epoch == 10
