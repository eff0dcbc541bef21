"""Read the loss and the gradient norm some steps late, so that no step waits for them."""

from typing import Annotated, Any
from weakref import WeakKeyDictionary

from msgspec import Meta
from torch import Tensor

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.step.eager import EagerStep
from hasten.step.graph import GraphStep
from hasten.step.readings import Readings, learning_rate
from hasten.task.pipeline import Pipeline
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique

_readings: WeakKeyDictionary[EagerStep, Readings] = WeakKeyDictionary()
"""Those of a run: applied again in its midst they go on counting."""


class LateReadingsPart(Part, frozen=True, kw_only=True):
    every: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    """Steps between readings."""
    slots: Annotated[int, Meta(ge=1, le=65_536)] = 16
    """Readings that may be on their way at once."""


class LateReadingsTechnique(Technique[LateReadingsPart]):
    name = "late_readings"
    part = LateReadingsPart
    stage = Stage.READINGS
    rung = Rung.BITWISE
    answers = ("sync-bound",)
    about = "Copies loss, gradient norm and scale to pinned memory; run.readings.latest() has them."
    helps = "Loops that log: `loss.item()` waits for all that the device has still to do."
    costs = "A small copy behind each step that is read. Figures arrive some steps late."
    limits = "The loop must ask `run.readings.latest()` instead of `loss.item()`."
    needs = "Any CPU or GPU; only a GPU has anything to wait for."
    reserved_for = "asked"
    untried = "it helps loops that read figures of each step, and a task's step reads none"

    def unavailable(self, environment: Environment) -> str | None:
        if environment.device.kind == "cpu":
            return "on the CPU nothing is waited for"
        return None

    def to_try(self, environment: Environment, traits: Traits) -> list[LateReadingsPart]:
        return []

    def apply(self, pipeline: Pipeline, part: LateReadingsPart) -> Effect:
        before, replay_before = pipeline.step, pipeline.replay
        eager = before.eager if isinstance(before, GraphStep) else before
        if not isinstance(eager, EagerStep):
            raise CannotApply("another technique has put a step of its own in place")
        readings = _readings_of(eager, part)

        def step(batch: Any) -> Tensor:
            rate = learning_rate(eager)
            loss = before(batch)
            readings.take(eager, rate)
            return loss

        def replay(batch: Any) -> Tensor | None:
            assert replay_before is not None  # else it is not put in place
            rate = learning_rate(eager)
            loss = replay_before(batch)
            if loss is not None:
                readings.take(eager, rate)
            return loss

        def undo() -> None:
            pipeline.step, pipeline.replay, pipeline.readings = before, replay_before, None

        pipeline.step, pipeline.readings = step, readings
        if replay_before is not None:
            pipeline.replay = replay
        why = "every step" if part.every == 1 else f"every {part.every} steps"
        return Effect(why=f"read {why}, late", undo=undo)


def _readings_of(eager: EagerStep, part: LateReadingsPart) -> Readings:
    known = _readings.get(eager)
    if known is None or (known.every, known.slots) != (part.every, part.slots):
        known = Readings(eager.pipeline.device, every=part.every, slots=part.slots)
        _readings[eager] = known
    return known
