"""A plan becomes effects on a pipeline; all of them can be undone."""

from dataclasses import dataclass

from hasten.records.applied import Applied
from hasten.records.plan import Plan
from hasten.task.pipeline import Pipeline
from hasten.techniques.registry import decode
from hasten.techniques.technique import CannotApply, Effect


@dataclass(frozen=True)
class LiveEffect:
    technique: str
    effect: Effect


def apply_plan(pipeline: Pipeline, plan: Plan) -> tuple[list[LiveEffect], list[Applied]]:
    """Apply every part in the order of composition. Bad parts are refused before any effect."""
    effects: list[LiveEffect] = []
    applied: list[Applied] = []
    for technique, part in decode(plan):
        try:
            effect = technique.apply(pipeline, part)
        except CannotApply as reason:
            applied.append(Applied(technique=technique.name, outcome="skipped", why=str(reason)))
        except BaseException:
            undo_all(effects)  # a fault of the technique: raised, with nothing left half done
            raise
        else:
            effects.append(LiveEffect(technique.name, effect))
            applied.append(Applied(technique=technique.name, outcome="done", why=effect.why))
    return effects, applied


def undo_all(effects: list[LiveEffect]) -> None:
    while effects:
        effects.pop().effect.undo()
