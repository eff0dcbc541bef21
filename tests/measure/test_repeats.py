"""Repeats of one step: what they leave alone, and what the masks of layers come to."""

import pytest
import torch
from torch import nn

from hasten.measure.randomness import MaskWatch, repeat
from hasten.records.plan import NAIVE, Plan
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.seed import seed_everything
from hasten.task.task import Task
from hasten.task.traits import read_traits


def _task(*layers: nn.Module) -> Task:
    return Task(
        model=nn.Sequential(nn.Linear(8, 32), *layers, nn.Linear(32, 3)),
        data=(torch.randn(64, 8), torch.randint(0, 3, (64,))),
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-1),
        batch_size=16,
    )


def _watched(*layers: nn.Module, plan: Plan = NAIVE) -> tuple[Run, MaskWatch]:
    seed_everything(0)
    task = _task(*layers)
    masks = MaskWatch(task.model)
    return Run(Pipeline.from_task(task), plan), masks


@pytest.mark.parametrize(
    "plan", [NAIVE, Plan(parts={"compile": {"backend": "aot_eager"}})], ids=str
)
def test_repeats_move_by_chance_alone_and_masks_are_counted(plan: Plan) -> None:
    run, masks = _watched(nn.Tanh(), nn.Dropout(0.25), plan=plan)
    before = [each.detach().clone() for each in run.model.parameters()]
    found = repeat(run, masks, 20, seed=1, limit_s=60)
    assert all(map(torch.equal, before, run.model.parameters()))
    layer = found.layers["2"]
    assert layer.rate == 0.75
    assert set(layer.seen) == {16 * 32}
    assert abs(sum(layer.kept) / sum(layer.seen) - 0.75) < 0.03
    assert len(set(layer.prints)) == len(set(found.values["loss"])) == 20
    again, masks = _watched(nn.Tanh(), nn.Dropout(0.25), plan=plan)
    assert repeat(again, masks, 20, seed=1, limit_s=60).values == found.values


def test_without_chance_every_repeat_is_the_same() -> None:
    run, masks = _watched(nn.Tanh())
    assert len(set(repeat(run, masks, 5, seed=1, limit_s=60).values["loss"])) == 1
    assert not masks.layers


def test_dropped_channels_are_counted_as_channels() -> None:
    model = nn.Sequential(nn.Dropout2d(0.5), nn.Dropout(0.5, inplace=True), nn.AlphaDropout(0.5))
    masks = MaskWatch(model)
    assert list(masks.layers) == ["0"]
    model[0](torch.ones(4, 6, 3, 3))
    assert masks.layers["0"].counts.tolist()[1] == 24


def test_a_model_that_draws_is_told_from_one_that_does_not() -> None:
    for layers, draws in (((nn.Dropout(0.1),), True), ((nn.Tanh(),), False)):
        pipeline = Pipeline.from_task(_task(*layers))
        batch = next(iter(pipeline.loader))
        before = torch.get_rng_state()
        assert read_traits(pipeline, batch).model.draws_random is draws
        assert torch.equal(torch.get_rng_state(), before)
