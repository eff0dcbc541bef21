"""One step again and again, with the same batch and weights: all that moves is chance.

The masks of torch's own dropout layers are counted by hooks that are there before a plan is
applied, so that compiled code has them in its graphs and a captured step in its capture; the counts
are tensors on the device that no module holds. Dropout by a function, inside attention and between
recurrent layers shows in the loss and in the gradients.

Limits: layers that drop in place, and alpha dropout, are judged by their effect alone.
"""

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hasten.measure.messages import MaskedLayer, Repeated
from hasten.runtime.run import Run
from hasten.task.seed import seed_everything
from hasten.task.task import training_device

WATCHED = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
MOST_GRADIENTS = 7
"""Parameters whose gradient norms are noted, spread over the model."""
MOST_PREPARING = 32
PRIME = 4_294_967_291
FACTOR = 1_640_531_513
"""Below 2**31, so that no product of the two leaves 64 bits."""


@dataclass(frozen=True)
class _Layer:
    rate: float
    """Of keeping."""
    counts: Tensor
    """Kept, seen, and the fingerprint of the mask, of one step."""


class MaskWatch:
    """Counts what the dropout layers of a model keep."""

    def __init__(self, model: nn.Module) -> None:
        self.layers = {
            name: self._watch(module)
            for name, module in model.named_modules()
            if type(module) in WATCHED and 0 < module.p < 1 and not module.inplace
        }

    def _watch(self, module: nn.Module) -> _Layer:
        counts = torch.zeros(3, dtype=torch.int64, device=training_device())
        one = torch.ones((), dtype=torch.int64, device=training_device())
        by_channel = type(module) is not nn.Dropout

        def count(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
            if module.training:
                with torch.no_grad():
                    counts.add_(_count(args[0], output, one, by_channel))

        module.register_forward_hook(count)
        return _Layer(1 - float(module.p), counts)  # type: ignore[arg-type]

    def begin(self) -> None:
        for layer in self.layers.values():
            layer.counts.zero_()


def _count(inputs: Tensor, output: Tensor, one: Tensor, by_channel: bool) -> Tensor:
    alive, kept = inputs != 0, (output != 0) & (inputs != 0)
    if by_channel and inputs.dim() > 2:
        alive, kept = alive.flatten(2).any(2), kept.flatten(2).any(2)
    # "one" is a tensor: what is made of constants alone, compiled code may compute in 32 bits.
    places = _scattered(one + torch.arange(kept.numel(), device=kept.device))
    return torch.stack([kept.sum(), alive.sum(), (kept.reshape(-1) * places).sum()])


def _scattered(places: Tensor) -> Tensor:
    """Over 32 bits and by no line, so that a sum of some tells which."""
    for _ in range(2):
        places = places * FACTOR % PRIME
        places = ((places >> 8) + 1) * ((places & 0xFFFFFF) + 1) % PRIME
    return places


def repeat(run: Run, masks: MaskWatch, count: int, seed: int, limit_s: float) -> Repeated:
    """``count`` steps from the same weights; fewer where the time is spent before."""
    run.pipeline.schedulers = []  # what they count are steps of a training, which these are not
    batch = next(iter(run.dataloader))
    start = _Weights(run.model)
    prepared = 0
    while not prepared or (run.is_warming and prepared < MOST_PREPARING):
        _one(run, batch)
        start.restore()
        prepared += 1
    names = _spread([name for name, p in run.model.named_parameters() if p.grad is not None])
    values: dict[str, list[float]] = {name: [] for name in ("loss", *names)}
    drawn: dict[str, list[list[int]]] = {name: [] for name in masks.layers}
    seed_everything(seed)
    deadline = time.monotonic() + limit_s
    while len(values["loss"]) < count and time.monotonic() < deadline:
        masks.begin()
        values["loss"].append(_one(run, batch))
        for name in names:
            gradient = run.model.get_parameter(name).grad
            values[name].append(0.0 if gradient is None else float(gradient.double().norm()))
        for name, layer in masks.layers.items():
            drawn[name].append(layer.counts.tolist())
        start.restore()
    return Repeated(
        values={name: tuple(each) for name, each in values.items()},
        layers={
            name: MaskedLayer(
                rate=masks.layers[name].rate,
                kept=tuple(row[0] for row in rows),
                seen=tuple(row[1] for row in rows),
                prints=tuple(row[2] for row in rows),
            )
            for name, rows in drawn.items()
        },
        applied=tuple(run.applied),
    )


def _one(run: Run, batch: Any) -> float:
    run.start_epoch()
    return float(run.pipeline.step(batch))


class _Weights:
    """Put back where they lie: a captured step goes on with them."""

    def __init__(self, model: nn.Module) -> None:
        self._held = [(each, each.detach().clone()) for each in _state(model)]

    @torch.no_grad()
    def restore(self) -> None:
        for tensor, kept in self._held:
            tensor.copy_(kept)


def _state(model: nn.Module) -> list[Tensor]:
    return [*model.parameters(), *model.buffers()]


def _spread(names: list[str]) -> list[str]:
    stride = -(-len(names) // MOST_GRADIENTS) or 1
    return names[::stride]
