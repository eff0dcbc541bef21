"""All that a training is between two steps, as one tree, and a run that takes it over to the bit.

The tree holds values and tensors only, so that any process can go on from it, with the same plan or
another: which kernel updates the weights, and how tensors are laid out in memory, stays the run's
own. Gradients are not in it but where no optimizer empties them.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from hasten.errors import HastenError
from hasten.runtime.epochs import EpochStart, own_states, restore_own
from hasten.runtime.run import Run
from hasten.task import batch as batches
from hasten.task.pipeline import Pipeline
from hasten.task.seed import random_state, restore_random_state
from hasten.task.settings import Plain

COMPILED = "_orig_mod."
"""What ``torch.compile(model)`` puts before the names of a model's weights."""
IMPLEMENTATION = frozenset({"fused", "foreach", "capturable", "differentiable"})
"""Settings of an optimizer that say how it computes, and not what."""

Tree = dict[str, Any]


def plain_name(name: str) -> str:
    return name.replace(COMPILED, "")


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """What ``state_dict`` has, by the names of the plain model."""
    state = model.state_dict()
    other = [name for name, value in state.items() if not isinstance(value, Tensor)]
    if other:
        raise HastenError(
            f"The model keeps {other[0]}, a {type(state[other[0]]).__name__}, beside its weights.",
            fix="Let get_extra_state return a tensor, or keep it in a buffer.",
        )
    return {plain_name(name): value for name, value in state.items()}


def capture(run: Run, start: EpochStart, batch_digest: str | None) -> Tree:
    """Beside the weights. The tensors are the live ones: copy them before the next step."""
    pipeline = run.pipeline
    return {
        "other buffers": {
            plain_name(name): buffer
            for name, buffer in pipeline.model.named_buffers()
            if name not in pipeline.model.state_dict(keep_vars=True)
        },
        "own weights of the loss": [each.detach() for each in _outside(pipeline)],
        "gradients": {
            place: each.grad for place, each in _left_alone(pipeline) if each.grad is not None
        },
        "optimizers": [_optimizer(each) for each in pipeline.optimizers],
        "schedulers": [each.state_dict() for each in pipeline.schedulers],
        "scaler": None if pipeline.scaler is None else pipeline.scaler.state_dict(),
        "carried state": pipeline.carried_state,
        "attributes": _attributes(pipeline.model),
        "random": random_state(),
        "epoch": {"random": start.random, "own": start.own, "later": start.later},
        "loader": {"own": own_states(pipeline.loader), "last batch": batch_digest},
    }


@torch.no_grad()
def restore(run: Run, weights: dict[str, Tensor], tree: Tree) -> None:
    """Into a run that was just made. The place in the epoch, and the random generators, come
    last and apart: see ``restore_generators``."""
    pipeline = run.pipeline
    live = pipeline.model.state_dict(keep_vars=True)
    for name, value in live.items():
        value.copy_(weights[plain_name(name)])
    _restore_buffers(pipeline.model, tree["other buffers"])
    for parameter, value in zip(_outside(pipeline), tree["own weights of the loss"], strict=True):
        parameter.copy_(value)
    for place, parameter in _left_alone(pipeline):
        if place in tree["gradients"]:
            parameter.grad = _like(parameter, tree["gradients"][place])
    for optimizer, held in zip(pipeline.optimizers, tree["optimizers"], strict=True):
        _restore_optimizer(optimizer, held)
        # It has stepped, in another process; a scheduler would warn that it has not.
        optimizer._opt_called = True  # type: ignore[attr-defined]
    for scheduler, held in zip(pipeline.schedulers, tree["schedulers"], strict=True):
        scheduler.load_state_dict(held)
    if pipeline.scaler is not None and tree["scaler"] is not None:
        pipeline.scaler.load_state_dict(tree["scaler"])
    pipeline.carried_state = batches.move(tree["carried state"], pipeline.device)
    _restore_attributes(pipeline.model, tree["attributes"])


def epoch_start(tree: Tree) -> EpochStart:
    held = tree["epoch"]
    return EpochStart(held["random"], held["own"], held["later"])


def restore_generators(run: Run, tree: Tree) -> None:
    restore_own(run.pipeline.loader, tree["loader"]["own"])
    restore_random_state(tree["random"])


def _outside(pipeline: Pipeline) -> list[Tensor]:
    """Trained, and none of the model's."""
    inside = {id(each) for each in pipeline.model.parameters()}
    return [each for each in pipeline.trained() if id(each) not in inside]


def _left_alone(pipeline: Pipeline) -> Iterator[tuple[int, Tensor]]:
    """Whose gradients add up from step to step, since no optimizer empties them."""
    optimized = {id(each) for each in pipeline.optimized()}
    for place, parameter in enumerate(pipeline.trained()):
        if id(parameter) not in optimized:
            yield place, parameter


def _optimizer(optimizer: Optimizer) -> Tree:
    if type(optimizer).load_state_dict is not Optimizer.load_state_dict:
        return {"own": optimizer.state_dict()}  # it may hold more than its state
    places = {id(parameter): place for place, parameter in enumerate(_parameters(optimizer))}
    return {
        "state": [
            (places[id(key)], None, held) if isinstance(key, Tensor) else (None, key, held)
            for key, held in optimizer.state.items()
        ],
        "groups": [
            {key: value for key, value in group.items() if key not in IMPLEMENTATION | {"params"}}
            for group in optimizer.param_groups
        ],
    }


def _restore_optimizer(optimizer: Optimizer, held: Tree) -> None:
    if "own" in held:
        optimizer.load_state_dict(held["own"])
        return
    parameters = list(_parameters(optimizer))
    on_device = {
        id(parameter): bool(group.get("fused") or group.get("capturable"))
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    optimizer.state.clear()
    for place, key, state in held["state"]:
        if place is None:
            optimizer.state[key] = state
            continue
        parameter = parameters[place]
        optimizer.state[parameter] = {
            name: _placed(parameter, name, value, counts_on_device=on_device[id(parameter)])
            for name, value in state.items()
        }
    for group, settings in zip(optimizer.param_groups, held["groups"], strict=True):
        for key, value in settings.items():
            if isinstance(group.get(key), Tensor) and isinstance(value, Tensor):
                group[key].copy_(value)  # a learning rate that others hold
            else:
                group[key] = value


def _placed(parameter: Tensor, name: str, value: Any, *, counts_on_device: bool) -> Any:
    """Where torch would have it: a count of steps on the host unless a kernel reads it."""
    if not isinstance(value, Tensor):
        return value
    if name == "step":
        return value.to(parameter.device if counts_on_device else "cpu")
    return _like(parameter, value)


def _like(parameter: Tensor, value: Tensor) -> Tensor:
    """On its device, and laid out as it is where it has its shape."""
    if value.shape != parameter.shape:
        return value.to(parameter.device)
    return torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)


def _parameters(optimizer: Optimizer) -> Iterable[Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _restore_buffers(model: nn.Module, held: dict[str, Tensor]) -> None:
    for name, buffer in model.named_buffers():
        if plain_name(name) in held:
            buffer.copy_(held[plain_name(name)])


def _attributes(model: nn.Module) -> dict[str, dict[str, Plain]]:
    """Numbers, words and flags that modules keep, such as a counter of steps."""
    found = {
        plain_name(name): {k: v for k, v in vars(module).items() if isinstance(v, Plain)}
        for name, module in model.named_modules()
    }
    return {name: values for name, values in found.items() if values}


def _restore_attributes(model: nn.Module, held: dict[str, dict[str, Plain]]) -> None:
    for name, module in model.named_modules():
        vars(module).update(held.get(plain_name(name), {}))
