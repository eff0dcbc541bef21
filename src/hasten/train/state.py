"""All that a training is between two steps, as one tree, and a run that takes it over to the bit.

The tree holds values and tensors only, so that any process can go on from it, with the same plan or
another: which kernel updates the weights, and how tensors are laid out in memory, stays the run's
own. Gradients are not in it but where no optimizer empties them.
"""

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sized
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils import _pytree as pytree

from hasten.checkpoint.codec import encode
from hasten.data.loaders.epochs import EpochStart, own_states, restore_own
from hasten.errors import HastenError
from hasten.runtime.run import Run
from hasten.step.optimizers import IMPLEMENTATION_FLAGS
from hasten.task import batch as batches
from hasten.task.pipeline import Pipeline, Splits
from hasten.task.seed import random_state, restore_random_state
from hasten.task.settings import INTERNAL, is_torchs, refill

COMPILED = "_orig_mod"
"""What ``torch.compile(model)`` puts before the names of a model's weights."""
DYNAMO = "_torchdynamo"
"""Attributes that torch.compile keeps for itself, such as places in memory."""
PLAIN = frozenset({bool, int, float, str, type(None)})
HELD = frozenset({list, dict, set, deque, tuple, Tensor, np.ndarray})
LONGEST = 10_000
"""Of a container that is kept."""

Tree = dict[str, Any]


def plain_name(name: str) -> str:
    return ".".join(each for each in name.split(".") if each != COMPILED)


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


def capture(
    run: Run, saved: Mapping[str, Tensor], start: EpochStart, batch_digest: str | None
) -> Tree:
    """Beside the weights that are ``saved``. The tensors are the live ones: copy them before the
    next step."""
    pipeline = run.pipeline
    return {
        "other weights": {
            plain_name(name): each.detach()
            for name, each in pipeline.model.named_parameters(remove_duplicate=False)
            if plain_name(name) not in saved
        },
        "trained": [each.requires_grad for each in pipeline.model.parameters()],
        "own weights of the loss": [each.detach() for each in _outside(pipeline)],
        "gradients": {
            place: each.grad for place, each in _left_alone(pipeline) if each.grad is not None
        },
        "optimizers": [_optimizer(each) for each in pipeline.optimizers],
        "schedulers": [each.state_dict() for each in pipeline.schedulers],
        "scaler": None if pipeline.scaler is None else pipeline.scaler.state_dict(),
        "carried state": pipeline.carried_state,
        "model": _memory(pipeline.model, saved),
        "loss": _memory(pipeline.loss_module, {}),
        "splits": dataclasses.asdict(pipeline.splits),
        "learnt": {
            live.technique: live.effect.remember()
            for live in run.effects
            if live.effect.remember is not None
        },
        "random": random_state(),
        "epoch": {"random": start.random, "own": start.own, "later": start.later},
        "loader": {
            "own": own_states(pipeline.loader),
            "ahead": ahead(pipeline.loader),
            "last batch": batch_digest,
        },
    }


@torch.no_grad()
def restore(run: Run, weights: dict[str, Tensor], tree: Tree) -> None:
    """Into a run that was just made. The place in the epoch, and the random generators, come
    last and apart: see ``restore_generators``."""
    pipeline = run.pipeline
    held = {**weights, **tree["other weights"]}
    for name, parameter in pipeline.model.named_parameters(remove_duplicate=False):
        parameter.copy_(held[plain_name(name)])
    _recall(pipeline.model, weights, tree["model"], pipeline.device)
    _recall(pipeline.loss_module, {}, tree["loss"], pipeline.device)
    for parameter, is_trained in zip(pipeline.model.parameters(), tree["trained"], strict=True):
        parameter.requires_grad_(is_trained)
    for each, value in zip(_outside(pipeline), tree["own weights of the loss"], strict=True):
        each.copy_(value)
    for place, each in _left_alone(pipeline):
        if place in tree["gradients"]:
            each.grad = _like(each, tree["gradients"][place])
    for optimizer, held in zip(pipeline.optimizers, tree["optimizers"], strict=True):
        _restore_optimizer(optimizer, held)
        # It has stepped, in another process; a scheduler would warn that it has not.
        optimizer._opt_called = True  # type: ignore[attr-defined]
    for scheduler, held in zip(pipeline.schedulers, tree["schedulers"], strict=True):
        scheduler.load_state_dict(held)
    if pipeline.scaler is not None and tree["scaler"] is not None:
        pipeline.scaler.load_state_dict(tree["scaler"])
    pipeline.carried_state = batches.move(tree["carried state"], pipeline.device)
    pipeline.splits = Splits(**tree["splits"])
    for live in run.effects:
        if live.effect.recall is not None and live.technique in tree["learnt"]:
            live.effect.recall(tree["learnt"][live.technique])


def ahead(loader: Any) -> int:
    """Batches whose indices workers have before they are asked for."""
    return getattr(loader, "num_workers", 0) * (getattr(loader, "prefetch_factor", 0) or 0)


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
            {
                key: value
                for key, value in group.items()
                if key not in IMPLEMENTATION_FLAGS | {"params"}
            }
            for group in optimizer.param_groups
        ],
        "attributes": {
            key: value
            for key, value in vars(optimizer).items()
            if type(value) in PLAIN and not key.startswith("_")  # those are torch's own
        },
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
    vars(optimizer).update(held["attributes"])
    for group, settings in zip(optimizer.param_groups, held["groups"], strict=True):
        for key, value in settings.items():
            if isinstance(group.get(key), Tensor) and isinstance(value, Tensor):
                group[key].copy_(value)  # a learning rate that others hold
            else:
                group[key] = value


def _placed(parameter: Tensor, name: str, value: Any, *, counts_on_device: bool) -> Any:
    """Where torch would have it: a count of steps on the host unless a kernel reads it."""
    if name == "step" and isinstance(value, Tensor):
        return value.to(parameter.device if counts_on_device else "cpu")
    return pytree.tree_map_only(Tensor, lambda each: _like(parameter, each), value)


def _like(parameter: Tensor, value: Tensor) -> Tensor:
    """On its device, and laid out as it is where it has its shape."""
    if value.shape != parameter.shape:
        return value.to(parameter.device)
    return torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)


def _parameters(optimizer: Optimizer) -> Iterable[Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _memory(model: nn.Module | None, saved: Mapping[str, Tensor]) -> Tree | None:
    """What modules keep from step to step beside parameters and what is saved with these."""
    if model is None:
        return None
    return {
        "buffers": {
            plain_name(name): buffer
            for name, buffer in model.named_buffers(remove_duplicate=False)
            if plain_name(name) not in saved
        },
        "attributes": _attributes(model),
        "generators": {
            name: {key: each.get_state() for key, each in generators.items()}
            for name, generators in _generators(model).items()
        },
    }


def _recall(
    model: nn.Module | None, saved: Mapping[str, Tensor], held: Tree | None, device: torch.device
) -> None:
    if model is not None and held is not None:
        _restore_buffers(model, {**saved, **held["buffers"]}, device)
        _restore_attributes(model, held, device)


def _restore_buffers(model: nn.Module, held: dict[str, Tensor], device: torch.device) -> None:
    """A model may have made one since it was built, or have given one another form."""
    for prefix, module in model.named_modules(remove_duplicate=False):
        for name, buffer in module._buffers.items():
            value = held.get(plain_name(f"{prefix}.{name}" if prefix else name))
            if value is None:
                module._buffers[name] = None
            elif buffer is not None and buffer.shape == value.shape:
                buffer.copy_(value)
            else:
                module._buffers[name] = value.to(device)


def _attributes(model: nn.Module) -> dict[str, dict[str, Any]]:
    """What modules keep in Python: numbers, words and flags of all, and of the user's own also
    containers, arrays and tensors, as far as a checkpoint can hold them."""
    found = {
        plain_name(name): {
            key: value
            for key, value in vars(module).items()
            if key not in INTERNAL and not key.startswith(DYNAMO) and _is_kept(module, value)
        }
        for name, module in model.named_modules()
    }
    return {name: values for name, values in found.items() if values}


def _is_kept(module: nn.Module, value: Any) -> bool:
    if type(value) in PLAIN:
        return True
    if is_torchs(module) or type(value) not in HELD:
        return False
    if isinstance(value, Sized) and not isinstance(value, Tensor) and len(value) > LONGEST:
        return False
    try:
        encode(value, where="")
    except HastenError:
        return False  # it has something in it that is an object
    return True


def _to(device: torch.device, tensor: Tensor) -> Tensor:
    return tensor.to(device)


def _generators(model: nn.Module) -> dict[str, dict[str, torch.Generator]]:
    found = {
        plain_name(name): {k: v for k, v in vars(module).items() if type(v) is torch.Generator}
        for name, module in model.named_modules()
    }
    return {name: values for name, values in found.items() if values}


def _restore_attributes(model: nn.Module, tree: Tree, device: torch.device) -> None:
    for name, module in model.named_modules():
        attributes = vars(module)
        for key, value in tree["attributes"].get(plain_name(name), {}).items():
            now = attributes.get(key)
            there = now.device if isinstance(now, Tensor) else device
            held = pytree.tree_map_only(Tensor, partial(_to, there), value)
            is_container = type(now) is type(held) and isinstance(now, list | dict | set | deque)
            attributes[key] = refill(now, held) if is_container else held
    for name, generators in _generators(model).items():
        for key, generator in generators.items():
            generator.set_state(tree["generators"][name][key])
