"""The live parts of one training run: what techniques replace and the step engine drives."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from hasten.errors import HastenError
from hasten.records.traits import Reduction
from hasten.task import batch as batches
from hasten.task.task import Task, loss_of_pair, training_device


def _no_step(batch: Any) -> Tensor:
    raise AssertionError("a Run puts its step here")


@dataclass(kw_only=True)
class Splits:
    batches: int = 0
    """That were to be split so far."""
    reduction: Reduction = "unknown"
    """How the loss combines rows, as far as batches have told."""
    unknown: int = 0
    """Batches that could not tell."""
    training: bool | None = None
    """The mode of the model when it was last asked."""
    pieces: int = 0
    """The most that a batch was split into."""
    moves_nothing: bool = False
    """Whether a forward pass was seen to leave statistics and counters alone."""

    def wants_probe(self, training: bool) -> bool:
        often = self.batches & (self.batches - 1) == 0  # the 1st, 2nd, 4th, 8th, ...
        return often or self.reduction == "unknown" or training is not self.training

    def note(self, found: Reduction, training: bool) -> None:
        self.training = training
        if found == "unknown":
            self.unknown += self.reduction == "unknown"
        elif self.reduction in ("unknown", found):
            self.reduction = found
        else:
            self.reduction = "coupled"  # now a mean and now not: it is neither


@dataclass(kw_only=True)
class Pipeline:
    """The live objects of a training, which a technique may replace and puts back by ``undo``."""

    model: nn.Module
    """On ``device``."""
    loader: Iterable[Any]
    """Gives the batches; empty where a loop keeps its own."""
    optimizers: list[Optimizer]
    """All of them step in each step."""
    forward: Callable[..., Any]
    """``forward(model, batch)``, the loss; with a state, ``forward(model, batch, state)``."""
    device: torch.device
    """Where a step is computed."""
    transfer: Callable[[Any, torch.device], Any] = batches.move
    """Brings a batch to the device."""
    count: Callable[[Any], int] = batches.rows_in
    """By what pieces of a batch are weighted."""
    loss_module: nn.Module | None = None
    """The loss, where it is a module, which may keep something from step to step."""
    clip_norm: float | None = None
    """The largest norm of all gradients together; None does not clip."""
    schedulers: list[LRScheduler] = field(default_factory=list)
    """Of the learning rates."""
    scheduler_unit: Literal["step", "epoch"] = "step"
    """What they count."""
    initial_state: Callable[..., Any] | None = None
    """Makes the state of a recurrent model."""
    state_resets: Literal["epoch", "batch"] = "epoch"
    """When the state begins anew."""
    carried_state: Any = None
    """What the next batch begins with, where the state is carried over an epoch."""
    scaler: torch.amp.GradScaler | None = None
    """Scales the loss of an fp16 step; one for the whole run, so that it keeps its scale."""
    micro_batches: int = 1
    """Pieces that a batch is computed in; the optimizer still steps once for all of them."""
    splits: Splits = field(default_factory=lambda: Splits())
    """What is known of splitting batches, once they are split."""
    step: Callable[[Any], Tensor] = _no_step
    """A whole optimizer step of a batch: the plain one, or what a technique put in its place."""
    readings: Any = None
    """Figures of past steps, where a technique takes them."""
    replay: Callable[[Any], Tensor | None] | None = None
    """A step that is known to run, without the care that ``step`` takes; None: not this batch."""
    couples_batch: bool | None = None
    """Whether the task says that rows of a batch depend on each other."""
    batch_multiple_of: int = 1
    """Pieces of a batch have a multiple of so many rows."""

    def optimized(self) -> list[Tensor]:
        """The parameters that the optimizers have."""
        groups = [group for each in self.optimizers for group in each.param_groups]
        return [parameter for group in groups for parameter in group["params"]]

    def trained(self) -> list[Tensor]:
        """Those and the model's, each once: a loss may have some of its own."""
        both = (*self.model.parameters(), *self.optimized())
        return list({id(each): each for each in both}.values())

    @classmethod
    def from_task(cls, task: Task) -> "Pipeline":
        """The parts of a task, built, on the device that it is trained on."""
        if any(isinstance(each, UninitializedParameter) for each in task.model.parameters()):
            raise HastenError(
                "The model has weights whose form is not known yet, as lazy modules have.",
                fix="Run a batch through it before the task is returned.",
            )
        model = task.model.to(training_device())
        device = next((each.device for each in model.parameters()), training_device())
        made = task.optimizer(model.parameters())
        several = list(made) if isinstance(made, Iterable) else []
        optimizers = [made] if isinstance(made, Optimizer) else several
        if not optimizers or not all(isinstance(each, Optimizer) for each in optimizers):
            raise HastenError(
                f"Task.optimizer returned {made!r}, not a torch optimizer.",
                fix="Return an optimizer, such as torch.optim.AdamW(parameters), or several.",
            )
        schedulers = [task.scheduler(each) for each in optimizers] if task.scheduler else []
        _refuse_what_needs_more(optimizers, schedulers)
        return cls(
            model=model,
            loader=task.make_loader(),
            optimizers=optimizers,
            forward=task.forward or task.compute_loss,
            device=device,
            count=task.count or batches.rows_in,
            loss_module=task.loss if isinstance(task.loss, nn.Module) else None,
            clip_norm=task.clip_norm,
            schedulers=schedulers,
            scheduler_unit=task.scheduler_unit,
            initial_state=task.initial_state,
            state_resets=task.state_resets,
            couples_batch=task.couples_batch,
            batch_multiple_of=task.batch_multiple_of,
        )

    @classmethod
    def from_loop(
        cls,
        model: nn.Module,
        loader: Iterable[Any],
        optimizer: Optimizer,
        loss: Callable[[Any, Any], Tensor] | None = None,
        *,
        forward: Callable[[nn.Module, Any], Tensor] | None = None,
        clip_norm: float | None = None,
        scheduler: LRScheduler | None = None,
    ) -> "Pipeline":
        """The parts of a loop that the user has already built, where the user put them."""
        if not isinstance(optimizer, Optimizer):
            raise HastenError(
                f"The optimizer is a {type(optimizer).__name__}.",
                fix="The order is model, loader, optimizer, loss_fn.",
            )
        parameter = next(model.parameters(), None)
        if parameter is None:
            raise HastenError(f"{type(model).__name__} has no parameters.", fix="Pass a model.")
        if loss is not None and forward is None:
            forward = partial(loss_of_pair, loss)
        elif forward is None or loss is not None:
            raise HastenError(
                f"{'Neither' if loss is None else 'Both'} of loss_fn and forward given.",
                fix="Give loss_fn(output, target), or forward(model, batch) that returns the loss.",
            )
        _refuse_what_needs_more([optimizer], [scheduler] if scheduler else [])
        return cls(
            model=model,
            loader=loader,
            optimizers=[optimizer],
            forward=forward,
            device=parameter.device,
            clip_norm=clip_norm,
            schedulers=[scheduler] if scheduler else [],
        )


def _refuse_what_needs_more(optimizers: list[Optimizer], schedulers: Sequence[LRScheduler]) -> None:
    """A step calls ``optimizer.step()`` and ``scheduler.step()``; some want an argument."""
    if any(isinstance(each, torch.optim.LBFGS) for each in optimizers):
        raise HastenError(
            "LBFGS computes the loss several times a step, by a closure.",
            fix="Use another optimizer, or keep your own loop for it.",
        )
    if any(isinstance(each, ReduceLROnPlateau) for each in schedulers):
        raise HastenError(
            "ReduceLROnPlateau steps by a metric, which a step does not have.",
            fix="Leave it out, and call its step(metric) in your own loop after an evaluation.",
        )
