"""Update all parameters in one kernel instead of a handful of operations for each."""

from typing import Literal

import torch
from torch.optim import Optimizer

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.step.optimizers import set_flags
from hasten.task.pipeline import Pipeline
from hasten.task.traits import can_fuse
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique


class FusedOptimizerPart(Part, frozen=True, kw_only=True):
    implementation: Literal["fused", "foreach"] = "fused"
    """"fused": the whole update in one kernel; "foreach": each operation over all parameters."""


class FusedOptimizerTechnique(Technique[FusedOptimizerPart]):
    name = "fused_optimizer"
    part = FusedOptimizerPart
    stage = Stage.OPTIMIZER
    rung = Rung.ROUNDING
    answers = ("slow-optimizer", "memory-peak")
    about = "Uses torch's fused kernel for Adam, AdamW, SGD and Adagrad, in place."
    helps = "Where the update is a visible share of a step: small batches, many small parameters."
    costs = "Nothing to prepare. Some operations are done in another order."
    limits = (
        "Fused: Adam, AdamW, SGD and Adagrad themselves, with dense floating-point parameters; "
        "foreach: every optimizer of torch's own that has the flag. Subclasses are left alone."
    )
    needs = "Any CPU or GPU."

    def unsuited(self, traits: Traits) -> str | None:
        names = ", ".join(each.name for each in traits.optimizers)
        if all(each.implementation == "fused" for each in traits.optimizers):
            return f"{names} is fused already"
        if not any(each.can_fuse for each in traits.optimizers):
            return f"torch has no fused {names} for these parameters"
        return None

    def to_try(self, environment: Environment, traits: Traits) -> list[FusedOptimizerPart]:
        return [FusedOptimizerPart()]

    def apply(self, pipeline: Pipeline, part: FusedOptimizerPart) -> Effect:
        kind = part.implementation
        chosen = [each for each in pipeline.optimizers if _can(each, kind)]
        if not chosen:
            raise CannotApply(f"no optimizer here has a {kind} implementation")
        undos = [set_flags(each, **_flags(each, kind)) for each in chosen]

        def undo() -> None:
            for one in reversed(undos):
                one()

        def did_run() -> str | None:
            lost = [each for each in chosen if not all(g.get(kind) for g in each.param_groups)]
            return f"{type(lost[0]).__name__} was set back by other code" if lost else None

        names = ", ".join(type(each).__name__ for each in chosen)
        return Effect(why=f"{names} {kind}", undo=undo, did_run=did_run)


def _can(optimizer: Optimizer, kind: str) -> bool:
    if kind == "fused":
        return can_fuse(optimizer)
    return (
        type(optimizer) is getattr(torch.optim, type(optimizer).__name__, None)
        and "foreach" in optimizer.defaults
        and not any(group.get("differentiable") for group in optimizer.param_groups)
    )


def _flags(optimizer: Optimizer, kind: str) -> dict[str, bool]:
    """Of the two flags those that it has."""
    return {name: name == kind for name in ("fused", "foreach") if name in optimizer.defaults}
