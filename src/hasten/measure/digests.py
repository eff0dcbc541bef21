"""Digests of state and data: equal digests mean equal bits."""

import time

import torch
from torch import nn

from hasten.measure.messages import DataDigested
from hasten.runtime.run import Run
from hasten.runtime.snapshot import named_state
from hasten.step.optimizers import IMPLEMENTATION_FLAGS
from hasten.task import batch as batches
from hasten.task.digest import digest
from hasten.task.pipeline import Pipeline
from hasten.task.seed import random_state
from hasten.task.settings import plain_attributes

CPU = torch.device("cpu")


def digest_state(pipeline: Pipeline) -> dict[str, str]:
    """Before step 1: every tensor of the model, the optimizers, schedulers, random generators."""
    state = {key: digest(tensor) for key, tensor in named_state(pipeline).items()}
    state["settings of modules"] = digest(_settings(pipeline.model))
    for index, optimizer in enumerate(pipeline.optimizers):
        groups = [
            {key: value for key, value in group.items() if key not in IMPLEMENTATION_FLAGS}
            for group in optimizer.state_dict()["param_groups"]
        ]
        held = optimizer.state_dict()["state"]
        state[f"optimizer {index}"] = digest([groups, held])
    for index, scheduler in enumerate(pipeline.schedulers):
        state[f"scheduler {index}"] = digest(scheduler.state_dict())
    state["random generators"] = digest(random_state())
    return state


def _settings(model: nn.Module) -> list[str]:
    """Plain attributes of every module, such as the rate of a dropout or the mode it is in."""
    names = {module: name for name, module in model.named_modules()}
    values = plain_attributes(model)
    return sorted(f"{names[module]}.{key}={value!r}" for (module, key), value in values.items())


def digest_data(run: Run, epochs: int, limit_s: float) -> DataDigested:
    """What the loader yields over whole epochs, without training on it."""
    deadline = time.monotonic() + limit_s
    found: list[str] = []
    complete = True
    for _ in range(epochs):
        for batch in run.pipeline.loader:
            found.append(digest(batches.move(batch, CPU)))  # as a step is given it
            if time.monotonic() > deadline:
                complete = False
                break
        if not complete:
            break
    return DataDigested(batches=tuple(found), after=digest(random_state()), complete=complete)
