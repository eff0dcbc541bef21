"""Two arms of the same training, step by step: what each computed, and how far they are apart."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hasten.measure import numerics
from hasten.measure.vague import VagueUpdates
from hasten.records.plan import Plan
from hasten.runtime.run import Run
from hasten.stats.yardstick import ALLOWED, EPSILON, Excess, Norms, excess
from hasten.task import batch as batches
from hasten.task.pipeline import Pipeline
from hasten.tune.checks import LOSS_ROUNDING

Form = Literal["pieces", "whole"]
"""Two steps of two ragged micro-batches by the parts of a Run, or an epoch of ``run.step``."""


@dataclass
class Trace:
    losses: list[float] = field(default_factory=list)
    steps: numerics.Quantities = field(default_factory=dict)
    """Gradients as the optimizer saw them, updates and buffers of each step."""
    scale: float | None = None
    run: Run | None = None
    complaints: dict[str, list[str | None]] = field(default_factory=dict)
    """What each technique that is still applied says for itself after the last step."""


def trace(
    pipeline: Pipeline,
    plan: Plan,
    form: Form,
    *,
    seed: int = 3,
    vague: VagueUpdates | None = None,
) -> Trace:
    run, found = Run(pipeline, plan), Trace()
    found.run = run
    torch.manual_seed(seed)
    for number, batch in enumerate(run.epoch(), 1):
        if form == "pieces" and number > 2:
            break
        before = {
            name: numerics._copied(p, numerics.HOST) for name, p in run.model.named_parameters()
        }
        found.losses.append(in_pieces(run, batch) if form == "pieces" else float(run.step(batch)))
        if vague is not None:
            gradients = _quantities(run, number, before)[f"gradients {number}"]
            vague.turn(run.model, before, gradients, number)
        found.steps |= _quantities(run, number, before)
    for live in run.effects:
        problem = live.effect.problem() if live.effect.problem is not None else None
        found.complaints[live.technique] = [live.effect.did_run(), problem]
    found.scale = None if run.pipeline.scaler is None else run.pipeline.scaler.get_scale()
    return found


def in_pieces(run: Run, batch: Any) -> float:
    """One optimizer step of two unequal micro-batches, weighted by their count."""
    rows = batches.rows_in(batch)
    sizes = batches.ragged_halves(rows, run.pipeline.batch_multiple_of)
    assert sizes is not None
    pieces = batches.split(batch, sizes)
    counts = [run.pipeline.count(piece) for piece in pieces]
    run.zero_grad()
    total = 0.0
    for piece, count in zip(pieces, counts, strict=True):
        loss = run.forward(run.transfer(piece)) * (count / sum(counts))
        run.backward(loss)
        total += float(loss.detach())
    run.update()
    return total


def _quantities(run: Run, number: int, before: dict[str, Tensor]) -> numerics.Quantities:
    parameters = dict(run.model.named_parameters())
    return {
        f"gradients {number}": {
            name: numerics._copied(each.grad, numerics.HOST)
            for name, each in parameters.items()
            if each.grad is not None
        },
        f"updates {number}": {
            name: (each.detach().cpu().double() - before[name].double()).to(each.dtype)
            for name, each in parameters.items()
        },
        f"buffers {number}": {
            name: numerics._copied(each, numerics.HOST).float()
            for name, each in run.model.named_buffers()
        },
    }


def first_difference(plain: Trace, changed: Trace) -> str:
    """What is not equal to the bit, in words; empty where all is."""
    if plain.losses != changed.losses:
        return f"losses {plain.losses} and {changed.losses}"
    if plain.scale != changed.scale:
        return f"scale {plain.scale} and {changed.scale}"
    if plain.steps.keys() != changed.steps.keys():
        return "steps"
    return numerics._first_unequal(plain.steps, changed.steps)


@dataclass
class Yardstick:
    """How far a perturbation of its weights moves a training, step by step."""

    plain: Trace
    epsilon: float
    moved: dict[str, dict[str, float]]
    losses_moved: list[float]
    resolution: dict[str, float]
    unsure: numerics.Quantities

    def share(self, changed: Trace) -> float:
        """Of what rounding may cause; above 1 it is another training."""
        assert changed.steps.keys() == self.plain.steps.keys()
        for key, part in self.plain.steps.items():
            assert changed.steps[key].keys() == part.keys(), key
        differences = numerics._differences(changed.steps, self.plain.steps, self.unsure)
        shares = {key: self._excess(key, differences[key]).share for key in self.plain.steps}
        losses = zip(self.plain.losses, changed.losses, self.losses_moved, strict=True)
        for number, (one, other, moved) in enumerate(losses, 1):
            allowed = ALLOWED * moved + LOSS_ROUNDING * abs(one)
            shares[f"loss {number}"] = abs(one - other) / allowed
        assert all(share == share for share in shares.values()), "a figure is not a number"
        worst = max(shares, key=lambda key: shares[key])
        parameter = (
            self._excess(worst, differences[worst]).parameter if worst in differences else ""
        )
        print(f"most of what rounding may cause: {shares[worst]:.3g} in {worst} {parameter}")
        return shares[worst]

    def _excess(self, key: str, differences: dict[str, float]) -> Excess:
        part = self.plain.steps[key]
        return excess(
            Norms(
                size={name: numerics._norm(each) for name, each in part.items()},
                sensitivity=self.moved[key],
                difference=differences,
                resolution=self.resolution
                if key.startswith("updates")
                else dict.fromkeys(part, 0.0),
                epsilon=self.epsilon,
            )
        )


@torch.no_grad()
def _perturb(model: nn.Module, probe: int, epsilon: float) -> None:
    generator = torch.Generator().manual_seed(100 + probe)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.mul_(1 + epsilon * noise.to(parameter))


def measure_yardstick(
    make: Callable[[], Pipeline], plan: Plan, form: Form, epsilon: float = EPSILON
) -> Yardstick:
    """``make`` gives twins of one training; three of them have their weights perturbed."""
    pipeline = make()
    resolution = {
        name: numerics._rounding(each) * numerics._norm(each)
        for name, each in pipeline.model.named_parameters()
    }
    plain = trace(pipeline, plan, form)
    probes, vague = [], VagueUpdates(plain.steps, epsilon)
    for probe in range(numerics.PROBES):
        pipeline = make()
        _perturb(pipeline.model, probe, epsilon)
        probes.append(trace(pipeline, plan, form, vague=vague))
    moved = [numerics._differences(each.steps, plain.steps, vague.unsure) for each in probes]
    return Yardstick(
        plain=plain,
        epsilon=epsilon,
        moved={
            key: {name: max(each[key][name] for each in moved) for name in part}
            for key, part in plain.steps.items()
        },
        losses_moved=[
            max(abs(each.losses[i] - loss) for each in probes)
            for i, loss in enumerate(plain.losses)
        ],
        resolution=resolution,
        unsure=vague.unsure,
    )
