"""A plan becomes effects on a pipeline; all of them can be undone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hasten.records.applied import Applied
from hasten.records.plan import Plan
from hasten.task.pipeline import Pipeline
from hasten.techniques.registry import decode
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique


@dataclass(frozen=True)
class LiveEffect:
    technique: str
    effect: Effect
    stage: Stage
    instead_of: tuple[str, ...]


def apply_plan(pipeline: Pipeline, plan: Plan) -> tuple[list[LiveEffect], list[Applied]]:
    """Apply every part in the order of composition. Bad parts are refused before any effect.

    Returns what was done, and the records of what was skipped.
    """
    effects: list[LiveEffect] = []
    skipped: list[Applied] = []
    for technique, part in decode(plan):
        try:
            effect = _apply(pipeline, technique, part, effects)
        except CannotApply as reason:
            skipped.append(Applied(technique=technique.name, outcome="skipped", why=str(reason)))
        except BaseException:
            undo_all(effects)  # a fault of the technique: raised, with nothing left half done
            raise
        else:
            effects.append(
                LiveEffect(technique.name, effect, technique.stage, technique.instead_of)
            )
    return effects, skipped


def _apply(
    pipeline: Pipeline, technique: Technique[Any], part: Part, effects: list[LiveEffect]
) -> Effect:
    for live in effects:
        if technique.name in live.instead_of:
            raise CannotApply(f"{live.technique} leaves it nothing to do")
    return technique.apply(pipeline, part)


def loading(effects: list[LiveEffect]) -> list[LiveEffect]:
    """Those that bring batches in another way."""
    return [live for live in effects if live.stage in (Stage.DATA, Stage.TRANSFER)]


def describe(
    effects: list[LiveEffect], dropped: list[Applied], hiccups: Sequence[str] = ()
) -> list[Applied]:
    """What each technique has come to, as of now. A failure that did not come again may have been
    anybody's, so that it is told of all."""
    redone = "".join(f"; a step failed once and was redone ({each})" for each in hiccups)
    done = [
        Applied(technique=live.technique, outcome="done", why=live.effect.words() + redone)
        for live in effects
    ]
    return done + dropped


def undo_all(effects: list[LiveEffect]) -> None:
    """The last applied first; where one cannot be undone the others are, before its error."""
    if effects:
        try:
            effects.pop().effect.undo()
        finally:
            undo_all(effects)
