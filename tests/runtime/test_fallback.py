"""A technique that fails, at whichever step, is dropped; the training is as if never tried."""

import random
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import StepLR

from hasten.records.environment import Environment
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.traits import Traits
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.techniques import registry
from hasten.techniques.registry import register_technique
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique
from plain_loop import make_loader, make_model
from torch_state import model_bits, model_form, optimizer_bits, optimizer_form, random_settings

Undo = Callable[[], None]
PLACES = ["forward", "backward", "step", "step, after it was done"]


@pytest.fixture(autouse=True)
def _forget_what_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_techniques", dict(registry._techniques))


class NoPart(Part, frozen=True, kw_only=True):
    pass


def register(
    its_name: str,
    effect: Callable[[Pipeline], Effect],
    its_stage: Stage = Stage.COMPILE,
) -> None:
    class Made(Technique[NoPart]):
        name = its_name
        part = NoPart
        stage = its_stage
        rung = Rung.BITWISE
        answers = ()
        about = "Made for a test."

        def to_try(self, environment: Environment, traits: Traits) -> list[NoPart]:
            return [NoPart()]

        def apply(self, pipeline: Pipeline, part: NoPart) -> Effect:
            return effect(pipeline)

    register_technique(Made)


def broken(place: str, message: str = "broken kernel", calls: int = 1) -> Callable[..., Effect]:
    """An effect that does the work and then raises, so that there is much to put back."""

    def fail() -> None:
        raise RuntimeError(f"{message}\nand a long explanation")

    def in_forward(pipeline: Pipeline) -> Undo:
        before, count = pipeline.forward, [0]

        def forward(*args: Any) -> Any:
            loss = before(*args)  # moves BatchNorm's statistics and draws for dropout
            count[0] += 1
            if count[0] >= calls:
                fail()
            return loss

        pipeline.forward = forward

        def undo() -> None:
            pipeline.forward = before

        return undo

    def in_backward(pipeline: Pipeline) -> Undo:
        first = next(pipeline.model.parameters())  # the last to get its gradient
        return first.register_hook(lambda gradient: fail()).remove

    def in_step(pipeline: Pipeline) -> Undo:
        optimizer = pipeline.optimizers[0]
        work = optimizer.step

        def step() -> None:
            if place != "step":
                work()
            fail()

        optimizer.step = step  # type: ignore[method-assign,assignment]

        def undo() -> None:
            optimizer.step = work  # type: ignore[method-assign]

        return undo

    kinds = {"forward": in_forward, "backward": in_backward}

    def effect(pipeline: Pipeline) -> Effect:
        return Effect(why="broken on purpose", undo=kinds.get(place, in_step)(pipeline))

    return effect


def wrapping(log: list[str], mark: str, why_not: str | None = None) -> Callable[..., Effect]:
    """A harmless effect on the same thing as others: each wraps the forward before it."""

    def effect(pipeline: Pipeline) -> Effect:
        before = pipeline.forward

        def forward(*args: Any) -> Any:
            log.append(mark)
            return before(*args)

        pipeline.forward = forward

        def undo() -> None:
            assert pipeline.forward is forward, "undone out of order"
            pipeline.forward = before

        return Effect(why=f"wrapped by {mark}", undo=undo, did_run=lambda: why_not)

    return effect


def make_pipeline(optimizer: Any = torch.optim.Adam) -> Pipeline:
    torch.manual_seed(9)
    model = Counting(*make_model().children())
    counting[:] = [model]
    made = optimizer(model.parameters(), lr=0.01)
    scheduler = StepLR(made, 3, gamma=0.5)
    return Pipeline.from_loop(
        model, make_loader(), made, F.cross_entropy, clip_norm=0.5, scheduler=scheduler
    )


def train(run: Run, steps: int = 9) -> list[float]:
    return [float(run.step(batch)) for _, batch in zip(range(steps), run.endless(), strict=False)]


def outcome(pipeline: Pipeline) -> list[Any]:
    return [
        model_bits(pipeline.model)["tensors"],
        optimizer_bits(pipeline.optimizers[0]),
        repr(pipeline.schedulers[0].state_dict()),
        random_settings(),
    ]


def expected(parts: dict[str, Any]) -> tuple[list[float], list[Any]]:
    """What a training with these techniques alone comes to."""
    pipeline = make_pipeline()
    run = Run(pipeline, Plan(parts=parts))
    losses = train(run)
    run.undo()
    return losses, outcome(pipeline)


def plan_of(*names: str) -> Plan:
    return Plan(parts={name: {} for name in names})


def shown(run: Run) -> list[str]:
    return [str(each) for each in run.applied]


@pytest.mark.parametrize("place", PLACES)
def test_a_technique_that_fails_is_dropped_and_leaves_no_trace(place: str) -> None:
    register("guilty", broken(place))
    losses, plain = expected({})
    pipeline = make_pipeline()
    form = model_form(pipeline.model)
    run = Run(pipeline, plan_of("guilty"))
    assert train(run) == losses
    assert outcome(pipeline) == plain
    assert shown(run) == ["guilty: fell back (RuntimeError: broken kernel)"]
    assert (run.plan, run.effects) == (NAIVE, [])
    assert model_form(pipeline.model) == form


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("stage", [Stage.COMPILE, Stage.GRAPH], ids=["below", "above"])
def test_of_two_techniques_the_innocent_one_stays(place: str, stage: Stage) -> None:
    """The fused optimizer holds state of its own: it must be neither lost nor left behind."""
    register("guilty", broken(place), stage)
    losses, fused = expected({"fused_optimizer": {}})
    pipeline = make_pipeline()
    form = optimizer_form(pipeline.optimizers[0])
    run = Run(pipeline, plan_of("guilty", "fused_optimizer"))
    assert train(run) == losses
    assert shown(run) == [
        "fused_optimizer: done (Adam fused)",
        "guilty: fell back (RuntimeError: broken kernel)",
    ]
    assert run.plan == plan_of("fused_optimizer")
    assert [live.technique for live in run.effects] == ["fused_optimizer"]
    assert pipeline.optimizers[0].param_groups[0]["fused"]
    run.undo()
    assert outcome(pipeline) == fused
    after = optimizer_form(pipeline.optimizers[0])
    assert {**after, "state": {}, "groups": [], "values": {}, "attributes": []} == {
        **form,
        "state": {},
        "groups": [],
        "values": {},
        "attributes": [],
    }
    assert pipeline.optimizers[0].param_groups[0]["fused"] is None


@pytest.mark.parametrize("place", PLACES)
def test_two_guilty_techniques_are_both_dropped(place: str) -> None:
    register("first_guilty", broken("forward", "no forward"), Stage.LAYOUT)
    register("second_guilty", broken(place, "no end"), Stage.GRAPH)
    losses, plain = expected({})
    pipeline = make_pipeline()
    run = Run(pipeline, plan_of("first_guilty", "second_guilty"))
    assert train(run) == losses
    assert outcome(pipeline) == plain
    assert sorted(shown(run)) == [
        "first_guilty: fell back (RuntimeError: no forward)",
        "second_guilty: fell back (RuntimeError: no forward)",
    ]
    assert (run.plan, run.effects) == (NAIVE, [])


def test_where_no_single_one_is_to_blame_all_are_dropped() -> None:
    register("first_guilty", broken("forward"), Stage.LAYOUT)
    register("second_guilty", broken("step"), Stage.GRAPH)
    losses, plain = expected({})
    pipeline = make_pipeline()
    loader = pipeline.loader
    run = Run(pipeline, plan_of("first_guilty", "fused_optimizer", "second_guilty"))
    assert train(run) == losses
    assert outcome(pipeline) == plain
    assert pipeline.loader is loader
    assert pipeline.optimizers[0].param_groups[0]["fused"] is None
    assert {each.outcome for each in run.applied} == {"fell_back"}


def test_of_two_that_fail_only_together_the_last_applied_is_dropped() -> None:
    log: list[str] = []

    def jealous(pipeline: Pipeline) -> Effect:
        before = pipeline.forward

        def forward(*args: Any) -> Any:
            log.clear()
            loss = before(*args)
            if log:
                raise RuntimeError("not with the other")
            return loss

        pipeline.forward = forward

        def undo() -> None:
            pipeline.forward = before

        return Effect(why="alone", undo=undo)

    register("lower", wrapping(log, "lower"), Stage.LAYOUT)
    register("upper", jealous, Stage.GRAPH)
    run = Run(make_pipeline(), plan_of("lower", "upper"))
    train(run, 2)
    assert shown(run) == [
        "lower: done (wrapped by lower)",
        "upper: fell back (RuntimeError: not with the other)",
    ]


# Failures after the first step.


def failing_when(place: str, when: Callable[[Any], bool]) -> Callable[..., Effect]:
    """An effect whose forward, or whose backward, raises where ``when(batch)`` says so."""

    def effect(pipeline: Pipeline) -> Effect:
        before = pipeline.forward

        def fail(*_: Any) -> None:
            raise RuntimeError(f"broken {place}")

        def forward(model: nn.Module, batch: Any) -> Any:
            loss = before(model, batch)
            if when(batch):
                if place == "forward":
                    fail()
                loss.register_hook(fail)
            return loss

        def undo() -> None:
            pipeline.forward = before

        pipeline.forward = forward
        return Effect(why="broken later", undo=undo)

    return effect


def at_the(step: int) -> Callable[[Any], bool]:
    """By a count that the model keeps, so that it is put back with the rest of the model."""
    return lambda batch: counting[0].calls == step


class Counting(nn.Sequential):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__(*layers)
        self.calls = 0

    def forward(self, *args: Any) -> Any:
        self.calls += 1
        return super().forward(*args)


counting: list[Counting] = []
"""The model of the run that is under test."""


def partial_batch(batch: Any) -> bool:
    return len(batch[0]) < 8


@pytest.mark.parametrize("place", ["forward", "backward"])
@pytest.mark.parametrize("when", ["third step", "partial batch"])
def test_a_technique_that_fails_later_is_dropped_and_leaves_no_trace(place: str, when: str) -> None:
    losses, end = expected({"fused_optimizer": {}})
    chosen = partial_batch if when == "partial batch" else at_the(3)
    register("late", failing_when(place, chosen))
    pipeline = make_pipeline()
    run = Run(pipeline, plan_of("late", "fused_optimizer"))
    assert train(run) == losses
    assert shown(run) == [
        "fused_optimizer: done (Adam fused)",
        f"late: fell back (RuntimeError: broken {place})",
    ]
    assert set(run.plan.parts) == {"fused_optimizer"}
    run.undo()
    assert outcome(pipeline) == end


def test_two_techniques_may_fail_at_different_steps() -> None:
    losses, end = expected({})
    register("third", failing_when("forward", at_the(3)))
    register("sixth", failing_when("backward", partial_batch))
    pipeline = make_pipeline()
    run = Run(pipeline, plan_of("third", "sixth"))
    assert train(run) == losses
    assert {each.technique: each.outcome for each in run.applied} == {
        "third": "fell_back",
        "sixth": "fell_back",
    }
    assert outcome(pipeline) == end


def test_a_failure_inside_the_update_cannot_be_redone_and_is_raised_with_a_note() -> None:
    def effect(pipeline: Pipeline) -> Effect:
        optimizer, when = pipeline.optimizers[0], at_the(3)
        work = optimizer.step

        def step(*args: Any) -> Any:
            done = work(*args)
            if when(None):
                raise RuntimeError("broken update")
            return done

        def undo() -> None:
            optimizer.step = work  # type: ignore[method-assign]

        optimizer.step = step  # type: ignore[method-assign,assignment]
        return Effect(why="broken later", undo=undo)

    register("late", effect)
    run = Run(make_pipeline(), plan_of("late"))
    train(run, 2)
    with pytest.raises(RuntimeError, match="broken update") as raised:
        train(run, 1)
    assert raised.value.__notes__ == ["Hasten could not redo this step: its update had begun."]


def test_an_error_of_the_users_own_at_a_later_step_leaves_what_the_raw_loop_leaves() -> None:
    ends = []
    for names in ((), ("harmless",)):
        pipeline = make_pipeline()
        good = pipeline.forward

        def forward(model: nn.Module, batch: Any, good: Any = good) -> Any:
            loss = good(model, batch)
            if model.calls == 5:
                raise NoLabel("no label")
            return loss

        pipeline.forward = forward
        if names:
            register("harmless", wrapping([], "mark"))
        run, losses = Run(pipeline, plan_of(*names)), []
        for batch in run.epoch():
            try:
                losses.append(float(run.step(batch)))
            except NoLabel as error:
                losses.append(str(error))
        ends.append((losses, outcome(pipeline)))
        assert [each.outcome for each in run.applied] == ["done"] * len(names)
    assert ends[0] == ends[1]


def test_a_technique_with_a_problem_is_dropped_between_steps() -> None:
    losses, end = expected({})
    steps = [0]

    def effect(pipeline: Pipeline) -> Effect:
        def problem() -> str | None:
            steps[0] += 1
            return "it recompiles without end" if steps[0] == 4 else None

        return Effect(why="fine so far", undo=lambda: None, problem=problem)

    register("storm", effect)
    pipeline = make_pipeline()
    run = Run(pipeline, plan_of("storm"))
    assert train(run) == losses
    assert shown(run) == ["storm: fell back (it recompiles without end)"]
    assert steps == [4]
    assert outcome(pipeline) == end


def test_the_scale_of_an_fp16_run_survives_a_fallback() -> None:
    register("late", failing_when("forward", at_the(6)))
    scales = []
    for names in (("mixed_precision",), ("mixed_precision", "late")):
        pipeline = make_pipeline(torch.optim.AdamW)
        parts: dict[str, Any] = {name: {} for name in names}
        parts["mixed_precision"] = {"dtype": "fp16", "initial_scale": 2.0**40}
        run = Run(pipeline, Plan(parts=parts))
        train(run)
        assert pipeline.scaler is not None
        scales.append(pipeline.scaler.get_scale())
    assert scales[0] == scales[1] < 2.0**40


def test_generators_of_python_and_numpy_are_put_back_where_a_step_draws_from_them() -> None:
    def noisy(pipeline: Pipeline) -> Pipeline:
        good = pipeline.forward
        pipeline.forward = lambda model, batch: (
            good(model, batch) * (1 + random.random() + np.random.rand())
        )
        return pipeline

    torch.manual_seed(0)
    random.seed(1)
    np.random.seed(1)
    plain = train(Run(noisy(make_pipeline())))
    random.seed(1)
    np.random.seed(1)
    register("late", failing_when("backward", at_the(3)))
    assert train(Run(noisy(make_pipeline()), plan_of("late"))) == plain


# The user's own errors.


class NoLabel(Exception):  # noqa: N818
    pass


def look_up_label(model: nn.Module, batch: Any) -> Tensor:
    raise NoLabel(f"no label for {len(batch[0])} rows")


@pytest.mark.parametrize("names", [(), ("fused_optimizer",), ("batched_loader", "fused_optimizer")])
def test_an_error_of_the_user_is_raised_as_itself(names: tuple[str, ...]) -> None:
    pipeline = make_pipeline()
    loader = pipeline.loader
    good, pipeline.forward = pipeline.forward, look_up_label
    run = Run(pipeline, plan_of(*names))
    with pytest.raises(NoLabel, match="no label for 8 rows") as raised:
        train(run, 1)
    assert traceback.extract_tb(raised.value.__traceback__)[-1].name == "look_up_label"
    assert raised.value.__context__ is None
    assert [live.technique for live in run.effects] == list(names)
    pipeline.forward = good
    train(run, 2)
    assert [each.outcome for each in run.applied] == ["done"] * len(names)
    run.undo()
    assert pipeline.loader is loader
    assert not pipeline.optimizers[0].param_groups[0]["fused"]


def test_after_an_error_of_the_user_all_is_as_the_raw_loop_left_it() -> None:
    outcomes = []
    for names in ((), ("batched_loader",)):
        pipeline = make_pipeline()
        good = pipeline.forward

        def fail_late(model: nn.Module, batch: Any, good: Any = good) -> Tensor:
            good(model, batch)
            raise NoLabel

        pipeline.forward = fail_late
        run = Run(pipeline, plan_of(*names))
        with pytest.raises(NoLabel):
            train(run, 1)
        pipeline.forward = good
        outcomes.append((train(run, 4), outcome(pipeline)))
    assert outcomes[0] == outcomes[1]


def test_an_interruption_is_not_taken_for_a_failure() -> None:
    def interrupt(model: nn.Module, batch: Any) -> Tensor:
        raise KeyboardInterrupt

    pipeline = make_pipeline()
    pipeline.forward = interrupt
    run = Run(pipeline, plan_of("fused_optimizer"))
    with pytest.raises(KeyboardInterrupt):
        train(run, 1)
    assert shown(run) == ["fused_optimizer: done (Adam fused)"]


# Techniques without effect.


def test_a_technique_that_did_not_run_is_taken_back_and_the_step_stands() -> None:
    log: list[str] = []
    register("idle", wrapping(log, "idle", why_not="the kernel was not chosen"))
    losses, plain = expected({})
    pipeline = make_pipeline()
    forward = pipeline.forward
    run = Run(pipeline, plan_of("idle"))
    assert train(run) == losses
    assert outcome(pipeline) == plain
    assert log == ["idle"]
    assert shown(run) == ["idle: fell back (the kernel was not chosen)"]
    assert (run.plan, run.effects) == (NAIVE, [])
    assert pipeline.forward is forward


@pytest.mark.parametrize("idle", ["lower", "middle", "upper"])
def test_one_that_did_not_run_is_taken_out_from_among_others(idle: str) -> None:
    log: list[str] = []
    stages = {"lower": Stage.LAYOUT, "middle": Stage.COMPILE, "upper": Stage.GRAPH}
    for name, stage in stages.items():
        register(name, wrapping(log, name, "it was idle" if name == idle else None), stage)
    pipeline = make_pipeline()
    forward = pipeline.forward
    run = Run(pipeline, plan_of(*stages))
    train(run, 1)
    log.clear()
    train(run, 1)
    others = [name for name in stages if name != idle]
    assert log == others[::-1]
    assert run.plan == plan_of(*others)
    assert sorted(shown(run)) == sorted(
        [f"{name}: done (wrapped by {name})" for name in others]
        + [f"{idle}: fell back (it was idle)"]
    )
    run.undo()
    assert pipeline.forward is forward


def test_what_is_applied_again_must_run_again() -> None:
    """It has been asked once, but of an effect that is gone."""
    asked: list[str] = []
    log: list[str] = []

    def asking(pipeline: Pipeline) -> Effect:
        effect = wrapping(log, "upper")(pipeline)

        def did_run() -> str | None:
            asked.append("upper")
            return None if len(asked) == 1 else "not this time"

        return Effect(why=effect.why, undo=effect.undo, did_run=did_run)

    register("lower", wrapping(log, "lower", "it was idle"), Stage.LAYOUT)
    register("upper", asking, Stage.GRAPH)
    run = Run(make_pipeline(), plan_of("lower", "upper"))
    train(run, 3)
    assert asked == ["upper", "upper"]
    assert shown(run) == [
        "lower: fell back (it was idle)",
        "upper: fell back (not this time)",
    ]


def test_a_technique_is_asked_whether_it_ran_after_a_redo_too() -> None:
    log: list[str] = []
    register("guilty", broken("forward"), Stage.GRAPH)
    register("idle", wrapping(log, "idle", why_not="it was idle"), Stage.LAYOUT)
    losses, plain = expected({})
    pipeline = make_pipeline()
    run = Run(pipeline, plan_of("guilty", "idle"))
    assert train(run) == losses
    assert outcome(pipeline) == plain
    assert sorted(shown(run)) == [
        "guilty: fell back (RuntimeError: broken kernel)",
        "idle: fell back (it was idle)",
    ]
    assert (run.plan, run.effects) == (NAIVE, [])


def test_a_technique_that_runs_is_asked_once() -> None:
    asked: list[int] = []

    def asking(pipeline: Pipeline) -> Effect:
        return Effect(why="asks", undo=lambda: None, did_run=lambda: asked.append(1))

    register("asking", asking)
    run = Run(make_pipeline(), plan_of("asking"))
    train(run, 4)
    assert asked == [1]


# Applying.


def test_what_was_skipped_stays_skipped_when_its_rival_is_dropped() -> None:
    """Else a technique that was never trusted would come in through the back door."""

    def rival(pipeline: Pipeline) -> Effect:
        if pipeline.count is counts:
            raise CannotApply("the other one is there")
        return broken("forward")(pipeline)

    def counts(batch: Any) -> int:
        return 1

    def first(pipeline: Pipeline) -> Effect:
        before, effect = pipeline.count, broken("forward")(pipeline)
        pipeline.count = counts

        def undo() -> None:
            pipeline.count = before
            effect.undo()

        return Effect(why="first", undo=undo)

    register("first", first, Stage.LAYOUT)
    register("rival", rival, Stage.GRAPH)
    losses, plain = expected({})
    pipeline = make_pipeline()
    run = Run(pipeline, plan_of("first", "rival"))
    assert train(run) == losses
    assert outcome(pipeline) == plain
    assert sorted(shown(run)) == [
        "first: fell back (RuntimeError: broken kernel)",
        "rival: skipped (the other one is there)",
    ]


def test_a_technique_that_cannot_be_applied_again_is_recorded_so() -> None:
    times: list[int] = []
    log: list[str] = []

    def once(pipeline: Pipeline) -> Effect:
        times.append(1)
        if len(times) > 1:
            raise CannotApply("only once")
        return wrapping(log, "once")(pipeline)

    register("guilty", broken("forward"), Stage.GRAPH)
    register("once", once, Stage.LAYOUT)
    run = Run(make_pipeline(), plan_of("guilty", "once"))
    train(run, 2)
    assert run.effects == []
    assert sorted(shown(run)) == [
        "guilty: fell back (RuntimeError: broken kernel)",
        "once: skipped (only once)",
    ]


def test_a_technique_that_breaks_while_it_is_applied_leaves_the_others_undone() -> None:
    def bug(pipeline: Pipeline) -> Effect:
        raise ZeroDivisionError

    register("bug", bug, Stage.GRAPH)
    pipeline = make_pipeline()
    loader, optimizer = pipeline.loader, optimizer_bits(pipeline.optimizers[0])
    with pytest.raises(ZeroDivisionError):
        Run(pipeline, plan_of("batched_loader", "fused_optimizer", "bug"))
    assert pipeline.loader is loader
    assert optimizer_bits(pipeline.optimizers[0]) == optimizer


# Carried state.


def carry(model: nn.Module, batch: Any, state: dict[str, Tensor]) -> tuple[Tensor, Any]:
    """Writes into the state that it is given, as a queue of past outputs does."""
    output = model(batch[0])
    state["sum"] += output.detach().sum()
    return F.cross_entropy(output, batch[1]) + state["sum"] * output.mean(), state


@pytest.mark.parametrize("place", ["forward", "backward"])
@pytest.mark.parametrize("by_epoch", [True, False])
@pytest.mark.parametrize("names", [("guilty",), ("guilty", "innocent")])
def test_carried_state_is_put_back_before_each_redo(
    place: str, by_epoch: bool, names: tuple[str, ...]
) -> None:
    register("guilty", broken(place), Stage.LAYOUT)
    register("innocent", wrapping([], "innocent"), Stage.GRAPH)
    found = []
    for plan in (NAIVE, plan_of(*names)):
        pipeline = make_pipeline()
        pipeline.forward = carry
        pipeline.initial_state = lambda: {"sum": torch.randn(())}
        run = Run(pipeline, plan)
        source = run.epoch() if by_epoch else run.dataloader
        found.append(([float(run.step(batch)) for batch in source], outcome(pipeline)))
    assert found[0] == found[1]


# State that a model keeps in Python, which a redo must find as it was.


class Remembering(nn.Module):
    """Of each kind of thing that a module may keep, moved by every forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.body = make_model()
        self.width: int | None = None
        self.history: list[float] = []
        self.counts = {"calls": 0}
        self.scale = torch.ones(1)
        self.last: Tensor | None = None
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        self.width = inputs.shape[1]
        self.counts["calls"] += 1
        self.scale *= 0.99
        self.calls = self.calls + 1
        output: Tensor = self.body(inputs) * self.scale * (1 + 0.1 * len(self.history))
        if self.last is not None:
            output = output + 0.01 * self.last
        self.history.append(self.counts["calls"] + float(self.calls))
        self.last = output.detach().mean(0)
        return output


@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("place", ["forward", "backward"])
def test_what_a_model_keeps_in_python_is_put_back(step: int, place: str) -> None:
    ends = []
    for names in ((), ("late",)):
        torch.manual_seed(2)
        model = Remembering()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        pipeline = Pipeline.from_loop(model, make_loader(), optimizer, F.cross_entropy)
        if names:
            register("late", failing_when(place, lambda _, own=model: own.counts["calls"] == step))
        run = Run(pipeline, plan_of(*names))
        ends.append((train(run, 6), model_bits(model)["tensors"], model.history, model.width))
        assert [each.outcome for each in run.applied] == ["fell_back"] * len(names)
    assert ends[0] == ends[1]


def test_a_failure_that_does_not_come_again_blames_nobody() -> None:
    losses, end = expected({})
    times = [0]

    def once(batch: Any) -> bool:
        times[0] += 1
        return times[0] == 3

    register("nervous", failing_when("forward", once))
    register("innocent", wrapping([], "mark"), Stage.GRAPH)
    pipeline = make_pipeline()
    run = Run(pipeline, plan_of("nervous", "innocent"))
    assert train(run) == losses
    assert [each.outcome for each in run.applied] == ["done", "done"]
    redone = "; a step failed once and was redone (RuntimeError: broken forward)"
    assert all(each.why.endswith(redone) for each in run.applied)
    assert outcome(pipeline) == end


def test_an_error_of_the_users_own_keeps_the_scale_of_an_fp16_run() -> None:
    pipeline = make_pipeline(torch.optim.AdamW)
    good = pipeline.forward

    def forward(model: nn.Module, batch: Any) -> Any:
        loss = good(model, batch)
        if model.calls == 6:
            raise NoLabel("no label")
        return loss

    pipeline.forward = forward
    part = {"dtype": "fp16", "initial_scale": 2.0**40}
    run, scales = Run(pipeline, Plan(parts={"mixed_precision": part})), []
    for batch in run.epoch():
        try:
            run.step(batch)
        except NoLabel:
            assert [each.outcome for each in run.applied] == ["done"]
        assert pipeline.scaler is not None
        scales.append(pipeline.scaler.get_scale())
    assert scales[5] == scales[4] < 2.0**40


def test_a_technique_that_fails_now_and_then_is_dropped_in_the_end() -> None:
    losses, _ = expected({})
    times = [0]

    def every_other(batch: Any) -> bool:
        times[0] += 1
        return times[0] > 1 and times[0] % 2 == 0

    register("nervous", failing_when("forward", every_other))
    run = Run(make_pipeline(), plan_of("nervous"))
    assert train(run) == losses
    assert [each.outcome for each in run.applied] == ["fell_back"]


def test_gradients_of_parameters_that_no_optimizer_has_are_put_back() -> None:
    ends = []
    for names in ((), ("late",)):
        torch.manual_seed(2)
        model = Counting(*make_model().children())
        counting[:] = [model]
        optimizer = torch.optim.Adam(model[-1].parameters(), lr=0.01)
        pipeline = Pipeline.from_loop(
            model, make_loader(), optimizer, F.cross_entropy, clip_norm=0.1
        )
        if names:
            register("late", failing_when("backward", at_the(3)))
        ends.append((train(Run(pipeline, plan_of(*names)), 6), model_bits(model)["tensors"]))
    assert ends[0] == ends[1]


def test_what_cannot_be_applied_again_is_recorded_and_the_step_stands() -> None:
    applied = [0]

    def once(pipeline: Pipeline) -> Effect:
        applied[0] += 1
        if applied[0] > 1:
            raise ValueError("only once")
        return Effect(why="once", undo=lambda: None)

    register("idle", wrapping([], "idle", why_not="it was idle"), Stage.LAYOUT)
    register("once", once, Stage.GRAPH)
    losses, _ = expected({})
    run = Run(make_pipeline(), plan_of("idle", "once"))
    assert train(run) == losses
    assert shown(run) == [
        "idle: fell back (it was idle)",
        "once: fell back (ValueError: only once)",
    ]
