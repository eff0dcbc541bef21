"""Planted bugs, each a technique that claims to leave the training the same, and tasks for them.

Loaded as a user's file would be. Each is a mistake that is made in real training loops.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import hasten
from hasten.task import batch as batches

BATCH = 16


def _rows(*shape: int, rows: int = 100) -> tuple[Tensor, Tensor]:
    """Six whole batches and one of four rows."""
    inputs = torch.randn(rows, *shape)
    return inputs, (inputs.flatten(1)[:, :4] + 0.1 * torch.randn(rows, 4)).argmax(1)


def _task(model: nn.Module, **more: Any) -> hasten.Task:
    chosen: dict[str, Any] = {
        "data": _rows(8),
        "loss": F.cross_entropy,
        "optimizer": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        "batch_size": BATCH,
    }
    return hasten.Task(model=model, **(chosen | more))


def plain() -> hasten.Task:
    """A clip that bites now and then, and a schedule that moves slowly."""
    return _task(
        nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)),
        clip_norm=0.8,
        scheduler=lambda each: torch.optim.lr_scheduler.CosineAnnealingLR(each, T_max=10_000),
    )


def dropping() -> hasten.Task:
    return _task(
        nn.Sequential(
            nn.Linear(8, 32), nn.Tanh(), nn.Dropout(0.3), nn.Linear(32, 32), nn.Tanh(),
            nn.Dropout(0.2), nn.Linear(32, 4),
        )
    )  # fmt: skip


class DropsByFunction(nn.Module):
    """Dropout that no module holds."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 32), nn.Linear(32, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.second(F.dropout(self.first(inputs).tanh(), 0.3, self.training))


def dropping_by_function() -> hasten.Task:
    return _task(DropsByFunction())


def normalizing() -> hasten.Task:
    return _task(nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 4)))


def convolving() -> hasten.Task:
    model = nn.Sequential(
        nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Flatten(), nn.Linear(32, 4)
    )
    return _task(model, data=_rows(4, 4, 4))


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            *(nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.1)) for _ in range(2))
        )
        self.head = nn.Linear(8, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.blocks(inputs))


def in_blocks() -> hasten.Task:
    return _task(Blocks())


class Remembers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.RNNCell(8, 8), nn.Linear(8, 4)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        states = []
        for row in inputs:
            state = self.cell(row[None], state)
            states.append(state)
        return self.head(torch.cat(states)), state


def remembering() -> hasten.Task:
    """Its state is carried from batch to batch and begins anew with each epoch."""

    def forward(model: nn.Module, batch: Any, state: Tensor) -> tuple[Tensor, Tensor]:
        outputs, state = model(batch[0], state)
        return F.cross_entropy(outputs, batch[1]), state

    return _task(
        Remembers(), loss=None, forward=forward, initial_state=lambda: torch.zeros(1, 8),
        shuffle=False,
    )  # fmt: skip


def pairwise() -> hasten.Task:
    """The loss is over all pairs of rows in a batch."""

    def forward(model: nn.Module, batch: Any) -> Tensor:
        outputs = model(batch[0])
        return (torch.cdist(outputs, outputs) - torch.cdist(batch[0], batch[0])).pow(2).mean()

    return _task(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)), loss=None,
                 forward=forward)  # fmt: skip


class HiddenMomentum(torch.optim.SGD):
    """Keeps its momentum where no checkpoint looks."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, lr=0.05)
        self.held: dict[Tensor, Tensor] = {}

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for parameter in self.param_groups[0]["params"]:
            held = self.held.get(parameter, torch.zeros_like(parameter))
            self.held[parameter] = 0.9 * held + parameter.grad
            parameter -= self.param_groups[0]["lr"] * self.held[parameter]


def hidden_momentum() -> hasten.Task:
    return _task(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)),
                 optimizer=HiddenMomentum)  # fmt: skip


class OnePassNorm(nn.Module):
    """Variance as the mean of squares less the square of the mean: fp32 bears it, bf16 does not."""

    def forward(self, inputs: Tensor) -> Tensor:
        variance = (inputs * inputs).mean(1, keepdim=True) - inputs.mean(1, keepdim=True) ** 2
        return (inputs - inputs.mean(1, keepdim=True)) / (variance + 1e-3).sqrt()


def cancelling() -> hasten.Task:
    model = nn.Sequential(nn.Linear(8, 16), OnePassNorm(), nn.Linear(16, 4))
    nn.init.constant_(model[0].bias, 30.0)  # type: ignore[arg-type]
    return _task(model)


def learning() -> hasten.Task:
    """By plain SGD, which knows how large a gradient is; with something to evaluate on."""
    held_out = _rows(8, rows=64)
    right = hasten.Metric(
        compute=lambda outputs, targets: (outputs.argmax(1) == targets).float().mean(),
        higher_is_better=True,
    )
    return _task(
        nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.5),
        evaluation_data=held_out,
        metrics={"accuracy": right},
        clip_norm=1.0,
    )


def learning_slowly() -> hasten.Task:
    """Of large weights by small steps, which 8 bits are too coarse for."""
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    nn.init.constant_(model[2].weight, 4.0)  # type: ignore[arg-type]
    return _task(model, optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.02))


RESTLESS = torch.Generator()
RESTLESS.seed()


def restless() -> hasten.Task:
    """Differs from itself by a few roundings, as sums of no fixed order do on a GPU."""

    def forward(model: nn.Module, batch: Any) -> Tensor:
        noise = torch.randn((), generator=RESTLESS) * 1e-7
        return F.cross_entropy(model(batch[0]), batch[1]) * (1 + noise)

    return _task(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)), loss=None,
                 forward=forward)  # fmt: skip


class BugPart(hasten.Part, frozen=True, kw_only=True):
    bit: int = 0
    """For those that flip one."""


class _Bug(hasten.Technique[BugPart]):
    part = BugPart
    stage = hasten.Stage.OPTIMIZER
    rung = hasten.Rung.ROUNDING
    answers = ()
    about = "Planted by a test."

    def to_try(self, environment: Any, traits: Any) -> list[BugPart]:
        return [BugPart()]

    def apply(self, pipeline: hasten.Pipeline, part: BugPart) -> hasten.Effect:
        before = pipeline.step, pipeline.forward, pipeline.loader, pipeline.initial_state
        self.plant(pipeline, part)

        def undo() -> None:
            pipeline.step, pipeline.forward, pipeline.loader, pipeline.initial_state = before

        return hasten.Effect(why="planted", undo=undo)

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        raise AssertionError("each bug has its own")


def _in_pieces(
    pipeline: hasten.Pipeline,
    sizes: Callable[[int], list[int]],
    weight: Callable[[int, int, int], float],
    between: Callable[[], None] = lambda: None,
) -> Callable[[Any], Tensor]:
    """A step in pieces; ``weight`` of one is made of its rows, of all rows and of the pieces."""

    def step(batch: Any) -> Tensor:
        rows = batches.rows_in(batch)
        cut = sizes(rows)
        moved = pipeline.transfer(batch, pipeline.device)
        pieces = batches.split(moved, [*cut, rows - sum(cut)])[: len(cut)]
        pipeline.optimizers[0].zero_grad()
        total = torch.zeros((), device=pipeline.device)
        for piece, size in zip(pieces, cut, strict=True):
            loss = pipeline.forward(pipeline.model, piece) * weight(size, rows, len(cut))
            loss.backward()
            total += loss.detach()
            between()
        _update(pipeline)
        return total

    return step


def _update(pipeline: hasten.Pipeline) -> None:
    if pipeline.clip_norm is not None:
        nn.utils.clip_grad_norm_(pipeline.model.parameters(), pipeline.clip_norm)
    pipeline.optimizers[0].step()
    for scheduler in pipeline.schedulers:
        scheduler.step()


def _halves(rows: int) -> list[int]:
    return [rows // 2, rows - rows // 2]


class AccumulationOffByK(_Bug):
    """Adds up the gradients of the pieces and does not divide by their number."""

    name = "accumulation_off_by_k"

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        pipeline.step = _in_pieces(pipeline, _halves, lambda size, rows, pieces: 1.0)


class LossDividedTwice(_Bug):
    """Weighted by its share, and divided by the number of pieces once more."""

    name = "loss_divided_twice"

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        pipeline.step = _in_pieces(pipeline, _halves, lambda size, rows, k: size / rows / k)


class RemainderDropped(_Bug):
    """Pieces of five rows; what is left of a batch after them is not computed."""

    name = "remainder_dropped"

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        def sizes(rows: int) -> list[int]:
            return [5] * (rows // 5) or [rows]

        pipeline.step = _in_pieces(pipeline, sizes, lambda size, rows, k: 1 / k)


class LastWindowDropped(_Bug):
    """An epoch's last batch, which is no whole window, makes no update."""

    name = "last_window_dropped"

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        step = pipeline.step

        def dropping(batch: Any) -> Tensor:
            if batches.rows_in(batch) >= BATCH:
                return step(batch)
            pipeline.optimizers[0].zero_grad()
            moved = pipeline.transfer(batch, pipeline.device)
            loss = pipeline.forward(pipeline.model, moved)
            loss.backward()
            for scheduler in pipeline.schedulers:
                scheduler.step()
            return loss.detach()

        pipeline.step = dropping


class RateSteppedPerMicroBatch(_Bug):
    """The schedule goes on with each piece."""

    name = "rate_stepped_per_micro_batch"

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        pipeline.step = _in_pieces(
            pipeline, _halves, lambda size, rows, k: size / rows, pipeline.schedulers[0].step
        )


class PairwiseSplit(_Bug):
    """Splits a batch whose rows are compared with each other."""

    name = "pairwise_split"

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        pipeline.step = _in_pieces(pipeline, _halves, lambda size, rows, k: size / rows)


class ClipBeforeUnscale(_Bug):
    """Clips gradients that are still scaled."""

    name = "clip_before_unscale"

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        scaler = torch.amp.GradScaler(pipeline.device.type, init_scale=1024.0)
        optimizer = pipeline.optimizers[0]

        def step(batch: Any) -> Tensor:
            optimizer.zero_grad()
            moved = pipeline.transfer(batch, pipeline.device)
            loss: Tensor = pipeline.forward(pipeline.model, moved)
            scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(pipeline.model.parameters(), pipeline.clip_norm or 1.0)
            scaler.step(optimizer)
            scaler.update()
            for scheduler in pipeline.schedulers:
                scheduler.step()
            return loss.detach()

        pipeline.step = step


class ClipBeforeUnscaleForPrecision(ClipBeforeUnscale):
    """The same, in the name of precision."""

    name = "clip_before_unscale_for_precision"
    rung = hasten.Rung.PARITY


class HalvedBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient / 2


class GradientsWrongAtEqualLoss(_Bug):
    """The loss is equal to the bit, the gradients behind the first layer are half."""

    name = "gradients_wrong_at_equal_loss"

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        first = next(pipeline.model.children())
        first.register_forward_hook(lambda module, args, output: HalvedBackward.apply(output))


def _droppers(pipeline: hasten.Pipeline) -> Iterator[nn.Dropout]:
    return (each for each in pipeline.model.modules() if isinstance(each, nn.Dropout))


class SameMask(_Bug):
    """The first mask of each layer is kept for all steps."""

    name = "same_mask"

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        for module in list(_droppers(pipeline))[part.bit :]:
            module.forward = _FixedMask(module.p)  # type: ignore[method-assign]


class _FixedMask:
    def __init__(self, p: float) -> None:
        self.p, self.masks = p, {}

    def __call__(self, inputs: Tensor) -> Tensor:
        if inputs.shape not in self.masks:
            self.masks[inputs.shape] = F.dropout(torch.ones_like(inputs), self.p)
        return inputs * self.masks[inputs.shape]


class SameMaskByFunction(_Bug):
    """Seeds the generator before each forward pass, as a careless recomputation does."""

    name = "same_mask_by_function"

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        forward = pipeline.forward

        def seeded(model: nn.Module, batch: Any) -> Tensor:
            torch.manual_seed(1)
            return forward(model, batch)

        pipeline.forward = seeded


class OtherRate(_Bug):
    """Drops a little more than the layer says."""

    name = "other_rate"

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        for module in _droppers(pipeline):
            module.forward = lambda rows, m=module: (  # type: ignore
                F.dropout(rows, m.p + 0.05 if m.p else 0.0)
            )


class NotRescaled(_Bug):
    """Drops without making up for it, by another stream."""

    name = "not_rescaled"

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        for module in _droppers(pipeline):
            module.forward = lambda rows, p=module.p: (  # type: ignore
                rows * (torch.rand_like(rows) >= p) if p else rows
            )


class OtherStream(_Bug):
    """Right: the same dropout, by numbers that are drawn in another way."""

    name = "other_stream"

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        for module in _droppers(pipeline):
            module.forward = lambda rows, p=module.p: (  # type: ignore
                rows * (torch.rand_like(rows) >= p) / (1 - p)
            )


class StateDetachedInsteadOfReset(_Bug):
    """An epoch begins with the state that the last one ended with."""

    name = "state_detached_instead_of_reset"

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        initial = pipeline.initial_state

        def carried() -> Any:
            held = pipeline.carried_state
            return initial() if held is None else held

        pipeline.initial_state = carried


class BatchNormInEval(_Bug):
    """Normalizes by the running statistics, where no mode shows it."""

    name = "batchnorm_in_eval"

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        for module in pipeline.model.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.forward = lambda rows, m=module: F.batch_norm(  # type: ignore
                    rows, m.running_mean, m.running_var, m.weight, m.bias
                )


class ModelInEval(_Bug):
    """The mode that everybody forgets."""

    name = "model_in_eval"

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        pipeline.model.eval()


@torch.no_grad()
def _flip(pipeline: hasten.Pipeline, bit: int) -> None:
    weights = next(pipeline.model.parameters()).view(torch.int32).view(-1)
    weights[3] ^= -(2**31) if bit == 31 else 1 << bit


class BitFlippedBeforeTheFirstStep(_Bug):
    name = "bit_flipped_before_the_first_step"

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        _flip(pipeline, part.bit)


class BitFlippedAfterTheFirstStep(_Bug):
    name = "bit_flipped_after_the_first_step"

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        steps: list[int] = []

        def flip(*args: Any) -> None:
            steps.append(1)
            if len(steps) == 1:
                _flip(pipeline, part.bit)

        pipeline.optimizers[0].register_step_post_hook(flip)


class CoarseWeights(_Bug):
    """Weights are kept in bf16."""

    name = "coarse_weights"

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        @torch.no_grad()
        def cut(*args: Any) -> None:
            for parameter in pipeline.model.parameters():
                parameter.copy_(parameter.bfloat16())

        pipeline.optimizers[0].register_step_post_hook(cut)


class CoarseWeightsForPrecision(CoarseWeights):
    """The same, in the name of precision."""

    name = "coarse_weights_for_precision"
    rung = hasten.Rung.PARITY


class OptimizerStateLost(_Bug):
    """The optimizer begins anew after two steps, as one does whose state was not restored."""

    name = "optimizer_state_lost"

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        optimizer, steps = pipeline.optimizers[0], []

        def forget(*args: Any) -> None:
            steps.append(1)
            if len(steps) == 2:
                optimizer.state.clear()

        optimizer.register_step_post_hook(forget)


class SampleDropped(_Bug):
    """One sample of each epoch is not trained on."""

    name = "sample_dropped"
    stage = hasten.Stage.DATA

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        pipeline.loader = _WithoutLast(pipeline.loader)


class _WithoutLast:
    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        for number, batch in enumerate(self.loader, 1):
            yield [each[:-1] for each in batch] if number == len(self.loader) else batch


class OrderChangedFromEpochTwo(_Bug):
    """The first epoch is right."""

    name = "order_changed_from_epoch_two"
    stage = hasten.Stage.DATA

    def plant(self, pipeline: hasten.Pipeline, part: BugPart) -> None:
        pipeline.loader = _OtherLater(pipeline.loader)


class _OtherLater:
    def __init__(self, loader: Any) -> None:
        self.loader, self.epochs = loader, 0
        other = torch.Generator().manual_seed(5)
        data = TensorDataset(*loader.dataset.tensors)
        self.later = DataLoader(data, batch_size=BATCH, shuffle=True, generator=other)

    def __iter__(self) -> Iterator[Any]:
        self.epochs += 1
        yield from self.loader if self.epochs == 1 else self.later


for bug in (
    AccumulationOffByK,
    LossDividedTwice,
    RemainderDropped,
    LastWindowDropped,
    RateSteppedPerMicroBatch,
    PairwiseSplit,
    ClipBeforeUnscale,
    ClipBeforeUnscaleForPrecision,
    GradientsWrongAtEqualLoss,
    SameMask,
    SameMaskByFunction,
    OtherRate,
    NotRescaled,
    OtherStream,
    StateDetachedInsteadOfReset,
    BatchNormInEval,
    ModelInEval,
    BitFlippedBeforeTheFirstStep,
    BitFlippedAfterTheFirstStep,
    CoarseWeights,
    CoarseWeightsForPrecision,
    OptimizerStateLost,
    SampleDropped,
    OrderChangedFromEpochTwo,
):
    hasten.register_technique(bug)
