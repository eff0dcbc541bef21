"""A trace of a few optimizer steps: every gradient and every update, for one arm to compare.

The steps lie at the beginning of an epoch and around its end (measure.cutting), so that code for
whole batches, for partial ones, for accumulation and for what happens between epochs is all in the
trace. The baseline also runs twice (does it repeat itself?), and where not every bit is to be equal
with its weights perturbed (how far does rounding move it?) and in fp64, if the model can (which
side is nearer to the truth?).

Limits: a difference that begins after these steps is not seen.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils import _pytree as pytree

from hasten.measure.cutting import Cut, Step, cut
from hasten.measure.digests import digest_state
from hasten.measure.messages import (
    BaselineTraced,
    CandidateTraced,
    Difference,
    Sensitivity,
    Trace,
)
from hasten.measure.vague import VagueUpdates, difference
from hasten.records.plan import Rung
from hasten.runtime.memory import free_bytes
from hasten.runtime.run import Run
from hasten.runtime.snapshot import Snapshot
from hasten.stats.yardstick import EPSILON
from hasten.task.seed import random_state, same_random_state
from hasten.techniques.technique import Effect

PROBES = 3
COPIES = 6
"""Of all parameters, that are held for each step of a baseline's trace."""
HOME_SHARE = 0.4
"""Of a device's free memory, for them; the rest is for steps, which take twice as much in fp64.
Where that is not enough after all, the host keeps them."""
HOST = torch.device("cpu")

Quantities = dict[str, dict[str, Tensor]]
"""By "gradients 1", "updates 1", "buffers 1", "gradients 2", ..., and then by name."""


@dataclass(frozen=True)
class Ran:
    """What some steps came to."""

    losses: list[float]
    schedule: list[tuple[float, ...]]
    """After each step: the learning rate of every group, and how often each scheduler stepped."""
    quantities: Quantities


@dataclass(frozen=True)
class Sensed:
    """How far rounding moves a baseline."""

    losses: tuple[float, ...]
    quantities: dict[str, Sensitivity]
    kept: dict[str, Quantities]
    """What a candidate is compared with, beside the baseline itself: how far it is in fp64, and
    which numbers have no sure sign."""


def trace(run: Run, request: Trace) -> BaselineTraced | CandidateTraced:
    found, path = cut(run, request.reduction, request.epoch), Path(request.path)
    home = _home(run, len(found.steps))
    if request.role == "candidate" and home == HOST:
        return _trace_candidate(run, found, path, HOST)
    start = Snapshot(run.pipeline)

    def traced(home: torch.device) -> BaselineTraced | CandidateTraced:
        if request.role == "baseline":
            return _trace_baseline(run, found, path, start, home, request.rung)
        return _trace_candidate(run, found, path, home)

    try:
        return traced(home)
    except torch.OutOfMemoryError:
        if home == HOST:
            raise
    start.restore()
    return traced(HOST)


def make_deterministic() -> None:
    """For this worker process only. What cannot be deterministic is found by running twice."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False


def compute_in_whole_fp32() -> None:
    """For this worker process only: without TF32, which cuDNN uses unless it is told not to.

    Its roundings are thousands of times those of the reordered sums that the yardstick stands for,
    and another layout rounds elsewhere. What another precision does is judged by training.
    """
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")


DROPPING = {
    name: getattr(functional, name)
    for name in ("dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d")
}


def switch_functional_dropout(*, on: bool) -> None:
    """For this worker process only: dropout that models call as a function of torch's."""
    for name, drop in DROPPING.items():
        setattr(functional, name, drop if on else _never(drop))


def _never(drop: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A plain function, which a compiler can look into."""

    def undropped(
        input: Tensor,  # noqa: A002  # as torch names it
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,
    ) -> Tensor:
        return drop(input, 0.0, training, inplace)

    return undropped


def switch_dropout_off(model: nn.Module) -> None:
    """Compiled dropout draws another stream; its masks are judged apart from the gradients."""
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
        elif isinstance(module, nn.RNNBase | nn.MultiheadAttention):
            module.dropout = 0.0


def _home(run: Run, steps: int) -> torch.device:
    """Where quantities are kept: on the device, which compares them in no time, if it has room."""
    wanted = COPIES * steps * sum(each.nbytes for each in run.model.parameters())
    device = run.pipeline.device
    return device if wanted < HOME_SHARE * free_bytes(device) else HOST


def _run_steps(
    run: Run,
    steps: list[Step],
    home: torch.device,
    vague: VagueUpdates | None = None,
    base: Quantities | None = None,
) -> Ran:
    """``home`` is where quantities are kept. With a ``base`` only their differences from it are:
    those are small, and need no more digits than the numbers themselves, if not fewer than
    fp32."""
    ran = Ran([], [], {})
    for number, step in enumerate(steps, 1):
        if step.begins_epoch:
            if number > 1:
                run.end_epoch()
            run.start_epoch()
        before = {name: _copied(p, home) for name, p in run.model.named_parameters()}
        ran.losses.append(_step(run, step.pieces))
        ran.schedule.append(_schedule(run))
        gradients = {
            name: _copied(p.grad, home)
            for name, p in run.model.named_parameters()
            if p.grad is not None
        }
        if vague is not None:
            vague.turn(run.model, before, gradients, number)
        updates = {
            name: (p.detach().to(home).double() - before[name].double()).to(p.dtype)
            for name, p in run.model.named_parameters()
        }
        buffers = {
            name: _copied(each, home).to(torch.promote_types(each.dtype, torch.float32))
            for name, each in run.model.named_buffers()
        }
        found = {"gradients": gradients, "updates": updates, "buffers": buffers}
        for kind, part in found.items():
            if part or kind != "buffers":
                key = f"{kind} {number}"
                ran.quantities[key] = part if base is None else _apart(part, base.get(key, {}))
    return ran


def _schedule(run: Run) -> tuple[float, ...]:
    groups = [group for each in run.pipeline.optimizers for group in each.param_groups]
    rates = [float(group["lr"]) for group in groups if "lr" in group]
    return (*rates, *(float(each.last_epoch) for each in run.pipeline.schedulers))


def _step(run: Run, pieces: list[tuple[Any, float]]) -> float:
    """A whole batch as training takes it, but for the falling back; pieces by the parts of a step.
    Gradients stay as the optimizer saw them, clipped."""
    if len(pieces) == 1:
        return float(run.pipeline.step(pieces[0][0]))
    run.zero_grad()
    total = 0.0
    for piece, weight in pieces:
        loss = run.forward(run.transfer(piece)) * weight
        run.backward(loss)
        total += float(loss.detach())
    run.update()
    return total


def _trace_baseline(
    run: Run, found: Cut, path: Path, start: Snapshot, home: torch.device, rung: Rung
) -> BaselineTraced:
    epsilon = _epsilon(run.model)
    ran = _run_steps(run, found.steps, home)
    end = digest_state(run.pipeline)
    start.restore()
    again = _run_steps(run, found.steps, home)
    repeats = ran.losses == again.losses and digest_state(run.pipeline) == end
    sensed = Sensed((), {}, {})
    if rung is not Rung.BITWISE:
        sensed = _sense(run, found.steps, start, home, ran, again, epsilon)
    if repeats or rung is not Rung.BITWISE:  # else there is nothing to be equal to
        _save(path, ran.losses, {"base": ran.quantities, **sensed.kept})
    return BaselineTraced(
        losses=tuple(ran.losses),
        schedule=tuple(ran.schedule),
        loss_sensitivity=sensed.losses,
        quantities=sensed.quantities,
        epsilon=epsilon,
        repeats=repeats,
        end=end,
        steps=tuple(len(step.pieces) for step in found.steps),
        epoch=found.epoch,
    )


def _sense(
    run: Run,
    steps: list[Step],
    start: Snapshot,
    home: torch.device,
    ran: Ran,
    again: Ran,
    epsilon: float,
) -> Sensed:
    """``again`` is the same run once more; it is used up. The model is left in fp64."""
    base = ran.quantities
    itself = _differences(again.quantities, base)
    moved, loss_moved = [itself], [_loss_differences(again.losses, ran.losses)]
    again.quantities.clear()
    vague = VagueUpdates(base, epsilon)
    for probe in range(PROBES):
        start.restore()
        _perturb(run.model, probe)
        probed = _run_steps(run, steps, home, vague)
        moved.append(_differences(probed.quantities, base, vague.unsure))
        loss_moved.append(_loss_differences(probed.losses, ran.losses))
        probed.quantities.clear()
    stored = {name: _rounding(p) * _norm(p) for name, p in run.model.named_parameters()}
    unsure = vague.unsure
    del vague  # what it has learnt is large
    start.restore()
    try:
        exact = _run_in_fp64(run, steps, home, base)
    except torch.OutOfMemoryError:
        for part in (*base.values(), *unsure.values()):
            part.update({name: each.to(HOST) for name, each in part.items()})
        start.restore()
        exact = _run_in_fp64(run, steps, HOST, base)
    return Sensed(
        # One number has few chances to move: what moved an earlier loss may move this one.
        losses=tuple(accumulate(map(max, zip(*loss_moved, strict=True)), max)),
        quantities={
            key: Sensitivity(
                size={name: _norm(tensor) for name, tensor in tensors.items()},
                sensitivity={name: max(each[key][name] for each in moved) for name in tensors},
                unsteadiness=itself[key],
                resolution=stored if key.startswith("updates") else dict.fromkeys(tensors, 0.0),
                fp64_error=_errors(tensors, tensors, exact.get(key), unsure.get(key)),
            )
            for key, tensors in base.items()
        },
        kept={"exact": exact, "unsure": unsure},
    )


def _trace_candidate(run: Run, cut_at: Cut, path: Path, home: torch.device) -> CandidateTraced:
    ran = _run_steps(run, cut_at.steps, home)
    losses, found = ran.losses, ran.quantities
    base_losses, kept = _load(path, home)
    base, exact = kept["base"], kept["exact"]
    missing = sorted({name for key in base for name in set(base[key]) ^ set(found.get(key, {}))})
    unequal = "losses" if losses != base_losses else _first_unequal(base, found)
    differences = {} if missing else _differences(found, base, kept["unsure"])
    return CandidateTraced(
        losses=tuple(losses),
        schedule=tuple(ran.schedule),
        quantities={
            key: Difference(
                norms=norms,
                fp64_error=_errors(found[key], base[key], exact.get(key), kept["unsure"].get(key)),
            )
            for key, norms in differences.items()
        },
        missing=tuple(missing),
        first_unequal=unequal,
        end=digest_state(run.pipeline),
        epoch=cut_at.epoch,
        did_not_run=tuple(
            f"{live.technique}: {reason}"
            for live in run.effects
            if (reason := _idle(live.effect)) is not None
        ),
    )


def _idle(effect: Effect) -> str | None:
    return effect.did_run() or ("still preparing" if effect.is_warming() else None)


@torch.no_grad()
def _perturb(model: nn.Module, probe: int) -> None:
    generator = torch.Generator().manual_seed(100 + probe)
    for parameter in model.parameters():
        if parameter.is_floating_point():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.mul_(1 + _epsilon(model) * noise.to(parameter))


def _epsilon(model: nn.Module) -> float:
    """Reordered sums of fp64 differ by that much less than those of fp32."""
    wide = any(parameter.dtype == torch.float64 for parameter in model.parameters())
    scale = torch.finfo(torch.float64).eps / torch.finfo(torch.float32).eps
    return EPSILON * (scale if wide else 1.0)


def _rounding(tensor: Tensor) -> float:
    """Two roundings of nearly the same number differ by at most one unit in the last place."""
    return torch.finfo(tensor.dtype).eps if tensor.is_floating_point() else 0.0


def _run_in_fp64(run: Run, steps: list[Step], home: torch.device, base: Quantities) -> Quantities:
    """How far from ``base`` the same is in fp64, nearer to the truth than either arm; empty where
    the model's code does not take fp64, or draws random numbers, which are others in fp64."""

    def widen(tensor: Tensor) -> Tensor:
        return tensor.double() if tensor.is_floating_point() else tensor

    wide = [
        replace(
            step,
            pieces=[
                (pytree.tree_map_only(Tensor, widen, each), weight) for each, weight in step.pieces
            ],
        )
        for step in steps
    ]
    run.model.double()
    before = random_state()
    try:
        found = _run_steps(run, wide, home, base=base).quantities
        return found if same_random_state(before) else {}
    except (RuntimeError, TypeError, ValueError) as error:
        if home != HOST and isinstance(error, torch.OutOfMemoryError):
            raise
        return {}  # reported as "not measured"; nothing is decided by it then


def _differences(
    found: Quantities, base: Quantities, unsure: Quantities | None = None
) -> dict[str, dict[str, float]]:
    """``unsure``: numbers that may have the other sign."""
    masks = unsure or {}
    return {
        key: {
            name: _norm(difference(found[key][name], each, masks.get(key, {}).get(name)))
            for name, each in part.items()
        }
        for key, part in base.items()
    }


def _loss_differences(found: list[float], base: list[float]) -> list[float]:
    return [abs(one - other) for one, other in zip(found, base, strict=True)]


def _first_unequal(base: Quantities, found: Quantities) -> str:
    for key, part in base.items():
        for name, tensor in part.items():
            other = found.get(key, {}).get(name)
            if other is None or not torch.equal(tensor, other):
                return f"{key} of {name}"
    return ""


def _errors(
    found: Mapping[str, Tensor],
    base: Mapping[str, Tensor],
    apart: Mapping[str, Tensor] | None,
    unsure: Mapping[str, Tensor] | None,
) -> dict[str, float]:
    """``apart`` is how far fp64 is from ``base``."""
    if not apart or set(apart) != set(found):
        return {}
    masks = unsure or {}
    return {
        name: _norm(difference(found[name], base[name].double() + each, masks.get(name)))
        for name, each in apart.items()
    }


def _apart(found: Mapping[str, Tensor], base: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: (each.double() - base[name].double()).to(
            torch.promote_types(base[name].dtype, torch.float32)
        )
        for name, each in found.items()
        if name in base
    }


def _norm(tensor: Tensor) -> float:
    return float(tensor.detach().double().norm())


def _copied(tensor: Tensor, home: torch.device) -> Tensor:
    dense = tensor.to_dense() if tensor.layout != torch.strided else tensor
    return dense.detach().to(home, copy=True)


def _save(path: Path, losses: list[float], families: dict[str, Quantities]) -> None:
    torch.serialization.set_crc32_options(False)  # it takes as long as the writing
    # Classes of the user's own are not read again.
    plain = pytree.tree_map_only(Tensor, lambda each: each.as_subclass(Tensor), families)
    torch.save({"losses": losses, **plain}, path)


def _load(path: Path, home: torch.device) -> tuple[list[float], dict[str, Quantities]]:
    families = torch.load(path, map_location=home, mmap=True, weights_only=True)
    return families.pop("losses"), {"exact": {}, "unsure": {}, **families}
