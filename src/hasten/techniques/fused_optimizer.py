"""Update all parameters in one kernel instead of a handful of operations for each."""

from collections.abc import Callable

import torch
from torch.optim import Optimizer

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.task.pipeline import Pipeline
from hasten.task.traits import can_fuse
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique

FLAGS = ("fused", "foreach")
# What torch keeps on a fused optimizer beside its groups.
ATTRIBUTES = ("_step_supports_amp_scaling", "_need_device_dtype_check_for_fused")


class FusedOptimizerPart(Part, frozen=True, kw_only=True):
    pass


class FusedOptimizerTechnique(Technique[FusedOptimizerPart]):
    name = "fused_optimizer"
    part = FusedOptimizerPart
    stage = Stage.OPTIMIZER
    rung = Rung.ROUNDING
    answers = ("slow-optimizer",)
    about = "Uses torch's fused kernel for Adam, AdamW, SGD and Adagrad, in place."

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
        chosen = [each for each in pipeline.optimizers if can_fuse(each)]
        if not chosen:
            raise CannotApply("no optimizer here has a fused kernel")
        undos = [_fuse(each) for each in chosen]

        def undo() -> None:
            for one in undos:
                one()

        def did_run() -> str | None:
            lost = [each for each in chosen if not all(g.get("fused") for g in each.param_groups)]
            return f"{type(lost[0]).__name__} was set back by other code" if lost else None

        names = ", ".join(type(each).__name__ for each in chosen)
        return Effect(why=f"{names} fused", undo=undo, did_run=did_run)


def _fuse(optimizer: Optimizer) -> Callable[[], None]:
    """Switch the implementation in place, so that the user's schedulers keep their optimizer."""
    before = [{key: group.get(key) for key in FLAGS} for group in optimizer.param_groups]
    defaults = {key: optimizer.defaults[key] for key in FLAGS}
    attributes = {key: vars(optimizer)[key] for key in ATTRIBUTES if key in vars(optimizer)}
    for group in optimizer.param_groups:
        group.update(fused=True, foreach=False)
    optimizer.defaults.update(fused=True, foreach=False)  # for groups that are added later
    optimizer._step_supports_amp_scaling = True  # type: ignore[attr-defined]  # as __init__ does
    _move_step_counters(optimizer, to_parameters=True)

    def undo() -> None:
        added_since = len(optimizer.param_groups) - len(before)
        flags = before + [defaults] * added_since
        for group, its_flags in zip(optimizer.param_groups, flags, strict=False):
            group.update(its_flags)
        optimizer.defaults.update(defaults)
        for name in ATTRIBUTES:
            vars(optimizer).pop(name, None)
        vars(optimizer).update(attributes)
        _move_step_counters(optimizer, to_parameters=False)

    return undo


def _move_step_counters(optimizer: Optimizer, *, to_parameters: bool) -> None:
    """Fused kernels want the step counter beside the parameter, the plain loop on the host."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            step = optimizer.state.get(parameter, {}).get("step")
            if isinstance(step, torch.Tensor) and not group.get("capturable"):
                device = parameter.device if to_parameters else torch.device("cpu")
                optimizer.state[parameter]["step"] = step.to(device, torch.float32)
