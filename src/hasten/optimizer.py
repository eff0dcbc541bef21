"""Apply a recipe, a config or a plan to a training loop that the user keeps.

The managers are thin: they hold the wish and hand the work to the runtime.
"""

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, Self

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from hasten.config import PerformanceConfig
from hasten.errors import HastenError
from hasten.host.environment import read_environment
from hasten.records.applied import Applied
from hasten.records.plan import Plan
from hasten.records.recipe import other_machine, read_recipe
from hasten.runtime.apply import LiveEffect, apply_plan, describe, undo_all
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.traits import read_traits
from hasten.techniques.registry import decode
from hasten.techniques.technique import Stage

Wish = PerformanceConfig | Plan
"""What the user wants, or what was decided already."""
MODEL_STAGES = (Stage.INIT, Stage.LAYOUT, Stage.CHECKPOINTING, Stage.COMPILE)
"""What changes the model itself, whoever calls it."""
STEP_STAGES = (
    Stage.PRECISION,
    Stage.ATTENTION,
    Stage.OPTIMIZER,
    Stage.ACCUMULATION,
    Stage.GRAPH,
    Stage.READINGS,
)
"""What changes how a step goes about it."""


class PerformanceOptimizer:
    """Everything that a plan has, on a whole training loop."""

    def __init__(self, wish: Wish | None = None) -> None:
        self.wish = _checked(wish)

    @classmethod
    def from_recipe(cls, path: str | Path, *, allow_other_machine: bool = False) -> Self:
        """Use a recipe. What it claims holds where it was made: on a machine that differs in
        something decisive it is refused, unless that is allowed."""
        recipe = read_recipe(Path(path))
        decode(recipe.as_plan(), where=str(path))
        differences = read_environment().differences(recipe.environment)
        if differences and not allow_other_machine:
            raise other_machine(str(path), differences)
        return cls(recipe.as_plan())

    def optimize_training_pipeline(
        self,
        model: nn.Module,
        dataloader: Iterable[Any],
        optimizer: Optimizer,
        loss_fn: Callable[[Any, Any], Tensor] | None = None,
        *,
        forward: Callable[[nn.Module, Any], Tensor] | None = None,
        clip_norm: float | None = None,
        scheduler: LRScheduler | None = None,
    ) -> Run:
        """``run.dataloader`` gives the batches, ``run.step(batch)`` does a whole step of them.

        Where batches are not (input, target) pairs give ``forward(model, batch)``, which returns
        the loss, instead of ``loss_fn``. The step clips where ``clip_norm`` is given and steps
        ``scheduler`` once. ``run.applied`` says what was done, ``run.undo()`` takes it back.
        """
        pipeline = Pipeline.from_loop(
            model,
            dataloader,
            optimizer,
            loss_fn,
            forward=forward,
            clip_norm=clip_norm,
            scheduler=scheduler,
        )
        return Run(pipeline, _decide(self.wish, pipeline))


class ModelOptimizer:
    """What a plan does to a model alone, for loops that keep everything else.

    Without the step engine there is no falling back: a compiler's failure is raised by the first
    forward or backward.
    """

    def __init__(self, wish: Wish | None = None) -> None:
        self.wish = _checked(wish)
        self._effects: list[LiveEffect] = []
        self._skipped: list[Applied] = []

    @property
    def applied(self) -> list[Applied]:
        """What each technique of the plan has come to."""
        return describe(self._effects, self._skipped)

    def optimize_model(self, model: nn.Module) -> nn.Module:
        """The same model, changed in place."""
        parameter = next(model.parameters(), None)
        if parameter is None:
            raise HastenError(f"{type(model).__name__} has no parameters.", fix="Pass a model.")
        pipeline = Pipeline(
            model=model, loader=(), optimizers=[], forward=model, device=parameter.device
        )
        plan, left_out = _split(_decide(self.wish, pipeline), MODEL_STAGES, "the model")
        effects, skipped = apply_plan(pipeline, plan)
        self._effects += effects
        self._skipped += skipped + left_out
        return model

    def undo(self) -> None:
        """Put every model back as it was."""
        undo_all(self._effects)


class TrainingOptimizer:
    """What a plan does to the step: the optimizer and all that surrounds it."""

    def __init__(self, wish: Wish | None = None) -> None:
        self.wish = _checked(wish)

    def optimize_training_step(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        loss_fn: Callable[[Any, Any], Tensor] | None = None,
        *,
        forward: Callable[[nn.Module, Any], Tensor] | None = None,
        clip_norm: float | None = None,
        scheduler: LRScheduler | None = None,
    ) -> Run:
        """A run whose ``step(batch)`` takes batches from the user's own loader."""
        pipeline = Pipeline.from_loop(
            model,
            (),
            optimizer,
            loss_fn,
            forward=forward,
            clip_norm=clip_norm,
            scheduler=scheduler,
        )
        plan, left_out = _split(_decide(self.wish, pipeline), STEP_STAGES, "the step")
        run = Run(pipeline, plan)
        run.dropped += left_out
        return run


def _checked(wish: Wish | None) -> Wish:
    if wish is None:
        return PerformanceConfig()
    if not isinstance(wish, PerformanceConfig | Plan):
        raise HastenError(
            f"A {type(wish).__name__} is neither a PerformanceConfig nor a Plan.",
            fix="Pass one of these, such as Plan(parts={'fused_optimizer': {}}).",
        )
    return wish


def _decide(wish: Wish, pipeline: Pipeline) -> Plan:
    if isinstance(wish, Plan):
        return wish
    return wish.resolve(read_environment(), read_traits(pipeline))


def _split(plan: Plan, stages: Collection[Stage], what: str) -> tuple[Plan, list[Applied]]:
    """The parts that belong to these stages, and records of the others."""
    others = [technique for technique, _ in decode(plan) if technique.stage not in stages]
    records = [
        Applied(
            technique=each.name,
            outcome="skipped",
            why=f"it changes {_changed_by(each.stage)}, and this changes {what} only",
        )
        for each in others
    ]
    return plan.without(*(each.name for each in others)), records


def _changed_by(stage: Stage) -> str:
    if stage in (Stage.BATCH, Stage.DATA, Stage.TRANSFER):
        return "how batches come"
    if stage in MODEL_STAGES:
        return "the model"
    return "the step" if stage in STEP_STAGES else "where the weights lie"
