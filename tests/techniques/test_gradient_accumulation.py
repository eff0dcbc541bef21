"""Pieces of a batch add up to the batch; where they would not, the batch stays whole."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.data import DataLoader, TensorDataset

from arms import first_difference, measure_yardstick, trace
from hasten.records.plan import Plan
from hasten.runtime.run import Run
from hasten.step.accumulate import weighted_pieces
from hasten.task import batch as batches
from hasten.task.pipeline import Pipeline
from hasten.task.traits import read_traits
from hasten.techniques.gradient_accumulation import GradientAccumulationTechnique
from plain_loop import make_model as model_with_batchnorm
from trainings import PADDING, WORDS, count_tokens, make_training

Loss = Callable[[nn.Module, Any], Tensor]
FP16 = {"mixed_precision": {"dtype": "fp16", "initial_scale": 1024.0}}


def accumulate(steps: int) -> Plan:
    return Plan(parts={"gradient_accumulation": {"steps": steps}})


def row_means(model: nn.Module, batch: Any) -> Tensor:
    return F.mse_loss(model(batch[0]), batch[1])


def row_sums(model: nn.Module, batch: Any) -> Tensor:
    return F.mse_loss(model(batch[0]), batch[1], reduction="sum")


def pair_means(model: nn.Module, batch: Any) -> Tensor:
    """Rows 0 and 1 are a pair, 2 and 3 are one, and so on."""
    outputs = model(batch[0])
    return (outputs[0::2] - outputs[1::2] - batch[1][0::2]).square().mean()


def every_pair(model: nn.Module, batch: Any) -> Tensor:
    """Each row is compared with each other one, as in a contrastive loss."""
    return torch.cdist(model(batch[0]), batch[1]).mean()


def make_rows(
    loss: Loss = row_means,
    *,
    rows: int = 22,
    batch: int = 8,
    multiple_of: int = 1,
    scaled: bool = False,
    model: nn.Module | None = None,
) -> Pipeline:
    """22 rows by 8 leave a last batch of 6."""
    torch.manual_seed(2)
    model = model or nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    data = TensorDataset(torch.randn(rows, 4), torch.randn(rows, 3))
    loader = DataLoader(data, batch_size=batch, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    pipeline = Pipeline.from_loop(model, loader, optimizer, forward=loss, clip_norm=0.5)
    pipeline.batch_multiple_of = multiple_of
    if scaled:
        pipeline.scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    return pipeline


def make_tokens(*, scaled: bool = False) -> Pipeline:
    pipeline = make_training("language", dropout=False)
    if scaled:
        pipeline.scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    return pipeline


def share_of_rounding(make: Callable[[], Pipeline], steps: int) -> float:
    """How far the pieces are from the whole, losses included; 1 is as far as rounding goes."""
    changed = trace(make(), accumulate(steps), "whole")
    assert changed.run is not None
    assert [each.outcome for each in changed.run.applied] == ["done"]
    assert changed.run.pipeline.splits.pieces > 1
    return measure_yardstick(make, Plan(), "whole").share(changed)


@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
@pytest.mark.parametrize("steps", [2, 3, 5, 8])
@pytest.mark.parametrize("loss", [row_means, row_sums])
def test_pieces_of_rows_add_up_to_the_batch(loss: Loss, steps: int, scaled: bool) -> None:
    """8 pieces of the last batch of 6 rows are 6 of one row each."""
    assert share_of_rounding(partial(make_rows, loss, scaled=scaled), steps) <= 1.0


@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
@pytest.mark.parametrize("steps", [2, 3, 6])
def test_pieces_of_tokens_are_weighted_by_their_tokens(steps: int, scaled: bool) -> None:
    assert share_of_rounding(partial(make_tokens, scaled=scaled), steps) <= 1.0


def test_counting_rows_for_a_token_loss_would_be_another_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the test above would catch: the mean of means over unequal pieces."""
    wrong = make_tokens()
    wrong.count = batches.rows_in
    monkeypatch.setattr("hasten.step.accumulate.probe_reduction", lambda *_: "mean")
    changed = trace(wrong, accumulate(2), "whole")
    assert measure_yardstick(make_tokens, Plan(), "whole").share(changed) > 10.0


@pytest.mark.parametrize("steps", [2, 3, 5])
def test_pairs_stay_together(steps: int) -> None:
    make = partial(make_rows, pair_means, multiple_of=2)
    assert share_of_rounding(make, steps) <= 1.0


def test_a_last_batch_of_a_single_row_is_not_split() -> None:
    assert share_of_rounding(partial(make_rows, rows=17), 4) <= 1.0


def test_the_loss_that_is_returned_is_the_batchs() -> None:
    plain, pieces = Run(make_rows()), Run(make_rows(), accumulate(3))
    for batch in plain.dataloader:
        whole, parts = plain.step(batch), pieces.step(batch)
        assert parts.shape == whole.shape == ()
        assert float(parts) == pytest.approx(float(whole), rel=1e-5)
        assert not parts.requires_grad


def test_in_sixteen_bits_the_loss_is_still_known_to_be_a_mean() -> None:
    for dtype in ("bf16", "fp16"):
        parts = {"mixed_precision": {"dtype": dtype}, "gradient_accumulation": {"steps": 2}}
        run = Run(make_training("transformer", dropout=False), Plan(parts=parts))
        plain = Run(
            make_training("transformer", dropout=False),
            Plan(parts=parts).without("gradient_accumulation"),
        )
        batch = next(iter(run.dataloader))
        assert float(run.step(batch)) == pytest.approx(float(plain.step(batch)), rel=1e-2)
        assert [each.outcome for each in run.applied] == ["done", "done"]


def padded(lengths: list[int]) -> list[Tensor]:
    words = torch.randint(1, WORDS, (len(lengths), 5))
    following = torch.randint(1, WORDS, (len(lengths), 5))
    return [
        words,
        following.masked_fill(torch.arange(5) >= torch.tensor(lengths)[:, None], PADDING),
    ]


@pytest.mark.parametrize("lengths", [[3, 4, 0, 0], [0, 0, 5, 1], [2, 0, 0, 1, 0, 0]])
def test_a_piece_of_padding_alone_is_left_out(lengths: list[int]) -> None:
    """Its mean would be 0 / 0, and its weight is nothing."""
    batch, pipeline = padded(lengths), make_tokens()
    run = Run(make_tokens(), accumulate(len(lengths) // 2))
    losses = [float(one.step(batch)) for one in (run, Run(pipeline))]
    assert [each.outcome for each in run.applied] == ["done"]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for one, other in zip(run.model.parameters(), pipeline.model.parameters(), strict=True):
        assert one.grad is not None
        assert torch.allclose(one.grad, other.grad, rtol=1e-4, atol=1e-7)
    pairs = weighted_pieces(run.pipeline, batch)
    assert sum(weight for _, weight in pairs) == pytest.approx(1.0)
    assert all(count_tokens(piece) for piece, _ in pairs)
    assert len(pairs) < len(lengths) // 2


def with_word(pipeline: Pipeline) -> Pipeline:
    pipeline.couples_batch = True
    return pipeline


def with_carried_state(pipeline: Pipeline) -> Pipeline:
    def forward(model: nn.Module, batch: Any, state: Tensor) -> tuple[Tensor, Tensor]:
        output = model(batch[0]) + state
        return F.mse_loss(output, batch[1]), output.mean(0)

    pipeline.forward, pipeline.initial_state = forward, lambda: torch.zeros(3)
    return pipeline


def with_weights(pipeline: Pipeline) -> Pipeline:
    """Of the rows, as a list, all alike at first, so that the probe sees nothing."""
    loader, forward = pipeline.loader, pipeline.forward
    pipeline.loader = [[*batch, [1.0] * len(batch[0])] for batch in loader]
    pipeline.forward = lambda model, batch: forward(model, batch[:2])
    return pipeline


def batchnorm() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


REFUSED: dict[str, tuple[Callable[[], Pipeline], str, str]] = {
    "BatchNorm": (
        lambda: make_rows(model=batchnorm()),
        "skipped",
        "BatchNorm couples the rows of a batch: pieces would be another training",
    ),
    "pairwise loss": (
        lambda: make_rows(every_pair),
        "fell_back",
        "SplitError: The batch cannot be split: its loss compares rows, or counts by something "
        "else than Task.count. Leave gradient accumulation out; give Task.count where a loss "
        "counts tokens.",
    ),
    "the user's word": (
        lambda: with_word(make_rows()),
        "skipped",
        "the task says that its loss couples the rows of a batch",
    ),
    "carried state": (
        lambda: with_carried_state(make_rows()),
        "skipped",
        "the state is carried from batch to batch, and pieces have none",
    ),
    "a layer that keeps statistics": (
        lambda: make_rows(model=nn.Sequential(spectral_norm(nn.Linear(4, 8)), nn.Linear(8, 3))),
        "fell_back",
        "SplitError: The batch cannot be split: each forward pass moves "
        "0.parametrizations.weight.0._u of the model. Leave gradient accumulation out.",
    ),
    "a value for each row that is no tensor": (
        lambda: with_weights(make_rows()),
        "fell_back",
        "SplitError: The batch cannot be split: beside tensors it holds 8 other values. Let "
        "everything in a batch that belongs to its rows be a tensor.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_split_stays_whole_and_trains_as_without(case: str) -> None:
    make, outcome, why = REFUSED[case]
    torch.manual_seed(0)
    plain = trace(make(), Plan(), "whole")
    torch.manual_seed(0)
    changed = trace(make(), accumulate(2), "whole")
    assert changed.run is not None
    (said,) = changed.run.applied
    assert (said.outcome, said.why) == (outcome, why)
    assert changed.run.pipeline.micro_batches == 1
    assert first_difference(plain, changed) == ""


def test_batchnorm_that_is_frozen_couples_nothing() -> None:
    def make() -> Pipeline:
        pipeline = make_rows(model=batchnorm())
        pipeline.model[1].eval()
        return pipeline

    torch.manual_seed(0)
    assert Run(make(), accumulate(2)).applied[0].outcome == "done"


def test_a_model_with_batchnorm_is_known_to_be_unsuited() -> None:
    pipeline = make_rows(model=model_with_batchnorm())
    assert GradientAccumulationTechnique().unsuited(read_traits(pipeline)) == (
        "the loss or a layer couples the rows of a batch"
    )


def test_one_piece_is_nothing_to_do() -> None:
    (said,) = Run(make_rows(), accumulate(1)).applied
    assert (said.outcome, said.why) == ("skipped", "one piece is the whole batch")


def test_a_batch_that_cannot_tell_stays_whole_and_the_next_is_asked() -> None:
    steps = [0]

    def zero_at_first(model: nn.Module, batch: Any) -> Tensor:
        return model(batch[0]).square().mean() * (steps[0] > 0)

    run = Run(make_rows(zero_at_first), accumulate(2))
    for batch in run.epoch():
        run.step(batch)
        steps[0] += 1
    assert [each.outcome for each in run.applied] == ["done"]
    assert run.pipeline.splits.reduction == "mean"


def test_a_loss_that_turns_out_to_count_something_else_is_noticed_later() -> None:
    """Padding that comes with the second batch: a mean over what is not padding."""
    steps = [0]

    def later_weighted(model: nn.Module, batch: Any) -> Tensor:
        errors = (model(batch[0]) - batch[1]).square().mean(1)
        weights = torch.arange(len(errors)) + 1.0 if steps[0] else torch.ones(len(errors))
        return (errors * weights).sum() / weights.sum()

    run = Run(make_rows(later_weighted), accumulate(2))
    for batch in run.epoch():
        run.step(batch)
        steps[0] += 1
    assert [each.outcome for each in run.applied] == ["fell_back"]


def test_it_says_how_many_pieces_there_really_were() -> None:
    run = Run(make_rows(), accumulate(100))
    assert str(run.applied[0]) == "gradient_accumulation: done (each batch in 100 pieces)"
    run.step(next(iter(run.dataloader)))
    said = "gradient_accumulation: done (batches in up to 8 pieces, 100 were asked for)"
    assert str(run.applied[0]) == said
