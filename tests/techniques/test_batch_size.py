"""A larger batch: the same rows in the same order, scaled rates, nothing that is not its own."""

from pathlib import Path

import pytest
import torch
from msgspec.structs import replace
from safetensors.torch import load_file
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from hasten.errors import HastenError
from hasten.records.plan import Plan
from hasten.records.traits import Traits
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.techniques.batch_size import BatchSizePart, BatchSizeTechnique
from hasten.techniques.registry import register_technique
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique
from hasten.train.fit import fit
from specimens import ENVIRONMENT, TRAITS
from trainings import BATCH, ROWS, make_training

TECHNIQUE = BatchSizeTechnique()
TASK = f"{Path(__file__).parents[1] / 'tasks' / 'batches.py'}:tiny_steps"


def rows_of(pipeline: Pipeline) -> torch.Tensor:
    torch.manual_seed(3)
    return torch.cat([batch[0] for batch in pipeline.loader])


def test_the_rows_of_an_epoch_are_the_same_in_the_same_order() -> None:
    plain, larger = make_training("perceptron"), make_training("perceptron")
    TECHNIQUE.apply(larger, BatchSizePart(times=2))
    assert [len(batch[0]) for batch in larger.loader] == [2 * BATCH, ROWS - 2 * BATCH]
    assert torch.equal(rows_of(plain), rows_of(larger))


@pytest.mark.parametrize(("rule", "factor"), [("linear", 3.0), ("sqrt", 3**0.5)])
def test_learning_rates_grow_by_the_rule(rule: str, factor: float) -> None:
    pipeline = make_training("perceptron")
    before = pipeline.optimizers[0].param_groups[0]["lr"]
    effect = TECHNIQUE.apply(pipeline, BatchSizePart(times=3, learning_rate=rule))  # type: ignore[arg-type]
    assert pipeline.optimizers[0].param_groups[0]["lr"] == before * factor
    assert effect.words() == f"18 rows a step instead of 6, learning rates x {factor:.4g}"


def test_batchnorm_is_said() -> None:
    effect = TECHNIQUE.apply(make_training("convolutions"), BatchSizePart(times=2))
    assert effect.words().endswith("; BatchNorm sees as many rows at once")


def test_a_rate_that_was_changed_since_is_scaled_back() -> None:
    pipeline = make_training("perceptron")
    effect = TECHNIQUE.apply(pipeline, BatchSizePart(times=2))
    pipeline.optimizers[0].param_groups[0]["lr"] = 0.5
    effect.undo()
    assert pipeline.optimizers[0].param_groups[0]["lr"] == 0.25


def refused(pipeline: Pipeline, times: int = 2) -> str:
    loader, rate = pipeline.loader, pipeline.optimizers[0].param_groups[0]["lr"]
    with pytest.raises(CannotApply) as reason:
        TECHNIQUE.apply(pipeline, BatchSizePart(times=times))
    assert pipeline.loader is loader
    assert pipeline.optimizers[0].param_groups[0]["lr"] == rate
    return str(reason.value)


def test_a_batch_that_the_user_makes_is_left_alone() -> None:
    pipeline = make_training("perceptron")
    data = pipeline.loader.dataset  # type: ignore[attr-defined]
    own = BatchSampler(SequentialSampler(data), 6, drop_last=False)
    pipeline.loader = DataLoader(data, batch_sampler=own)
    assert refused(pipeline) == "the loader has a batch sampler of its own"


def test_a_batch_that_is_more_than_an_epoch_is_not_made() -> None:
    assert refused(make_training("perceptron"), times=4) == "an epoch has fewer than 24 rows"


@pytest.mark.parametrize("known", [True, False])
def test_a_schedule_of_the_rates_is_refused_even_where_only_the_optimizer_tells(
    known: bool,
) -> None:
    pipeline = make_training("perceptron")
    scheduler = torch.optim.lr_scheduler.StepLR(pipeline.optimizers[0], 10)
    if known:
        pipeline.schedulers = [scheduler]
    assert "have a schedule" in refused(pipeline)


def _traits(**changes: object) -> Traits:
    data = {key: changes.pop(key) for key in ("rows", "batch_size") if key in changes}
    return replace(TRAITS, data=replace(TRAITS.data, **data), **changes)


@pytest.mark.parametrize(
    ("traits", "reason"),
    [
        (_traits(loss_reduction="coupled"), "compares the rows of a batch"),
        (_traits(loss_reduction="sum"), "could not be shown to be a mean"),
        (_traits(loss_reduction="unknown"), "could not be shown to be a mean"),
        (_traits(batch_size=None), "not made by a DataLoader's batch_size"),
        (_traits(rows=100, batch_size=64), "the data has 100 rows, and a batch 64"),
    ],
)
def test_what_makes_a_larger_batch_another_question_is_refused(traits: Traits, reason: str) -> None:
    assert reason in (TECHNIQUE.unsuited(traits) or "")


def test_no_batch_is_tried_that_the_data_does_not_fill() -> None:
    assert TECHNIQUE.unsuited(TRAITS) is None
    tried = TECHNIQUE.to_try(ENVIRONMENT, _traits(rows=300, batch_size=64))
    assert [(each.times, each.learning_rate) for each in tried] == [(2, "sqrt"), (4, "sqrt")]


def test_a_stopped_training_goes_on_to_the_bit_and_never_at_another_batch(tmp_path: Path) -> None:
    """The rates in a checkpoint are the scaled ones: they are not scaled once more."""
    plan = Plan(parts={"batch_size": {"times": 4}})
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    fit(TASK, plan, steps=30, checkpoint_dir=whole)
    fit(TASK, plan, steps=10, checkpoint_dir=parts)
    fit(TASK, plan, steps=30, checkpoint_dir=parts, resume=True)
    for name in ("model", "state"):
        one, other = (
            load_file(each / "step-00000030" / f"{name}.safetensors") for each in (whole, parts)
        )
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)
    with pytest.raises(HastenError, match="is not a checkpoint of this training"):
        fit(TASK, steps=40, checkpoint_dir=parts, resume=True)


class Breaks(Technique[Part]):
    name = "breaks_in_its_first_step"
    part = Part
    stage = Stage.READINGS
    rung = TECHNIQUE.rung
    answers = ()
    about = "Fails."

    def to_try(self, environment: object, traits: object) -> list[Part]:
        return []

    def apply(self, pipeline: Pipeline, part: Part) -> Effect:
        before = pipeline.step

        def broken(batch: object) -> torch.Tensor:
            raise RuntimeError("broken")

        def undo() -> None:
            pipeline.step = before

        pipeline.step = broken
        return Effect(why="broken", undo=undo)


def test_what_fails_beside_it_is_dropped_and_the_batch_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A training whose batch changed midway would be nobody's."""
    monkeypatch.setattr("hasten.techniques.registry._techniques", _all_and(Breaks))
    plan = Plan(parts={"batch_size": {"times": 2}, "batched_loader": {}, Breaks.name: {}})
    run = Run(make_training("perceptron"), plan)
    rate = run.optimizer.param_groups[0]["lr"]
    sizes = []
    for batch in run.epoch():
        sizes.append(len(batch[0]))
        run.step(batch)
    assert {each.technique: each.outcome for each in run.applied} == {
        "batch_size": "done",
        "batched_loader": "done",
        Breaks.name: "fell_back",
    }
    assert sizes == [12, 10]
    assert run.optimizer.param_groups[0]["lr"] == rate
    run.undo()
    assert run.optimizer.param_groups[0]["lr"] == rate / 2


def _all_and(more: type[Technique[Part]]) -> dict[str, object]:
    from hasten.techniques import registry

    register_technique(more)
    known = dict(registry._techniques)
    del registry._techniques[more.name]
    return known


def test_a_batch_that_does_not_fit_is_the_trainings_own_error() -> None:
    """It is not dropped in silence: that would be another training than was asked for."""
    pipeline = make_training("perceptron")
    forward = pipeline.forward

    def narrow(model: torch.nn.Module, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        if len(batch[0]) > BATCH:
            raise torch.OutOfMemoryError("too large")
        return forward(model, batch)

    pipeline.forward = narrow
    run = Run(pipeline, Plan(parts={"batch_size": {"times": 2}, "batched_loader": {}}))
    with pytest.raises(torch.OutOfMemoryError):
        run.step(next(iter(run.dataloader)))
    assert [each.outcome for each in run.applied] == ["done", "done"]
