"""What a step does on the host, seen without a device."""

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from hasten.step.watch import HostState


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.seen = 0
        self.names = ["a"]
        self.register_buffer("mean", torch.zeros(2))


def count(model: Model) -> None:
    model.seen += 1


def remember(model: Model) -> None:
    model.names.append("b")


def replace(model: Model) -> None:
    model.mean = model.mean + 1


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (lambda model: None, None),
        (lambda model: model.mean.add_(1), None),
        (lambda model: model.inner(torch.ones(1, 2)), None),
        (lambda model: torch.rand(1), "the step draws random numbers on the host"),
        (lambda model: random.random(), "the step draws random numbers on the host"),
        (lambda model: np.random.rand(), "the step draws random numbers on the host"),
        (count, "the step changes seen of the model"),
        (remember, "the step changes names of the model"),
        (replace, "the step changes mean of the model"),
        (
            lambda model: setattr(model.inner, "flag", True),
            "the step changes inner.flag of the model",
        ),
    ],
)
def test_what_a_replay_would_not_do_is_noticed(
    act: Callable[[Model], object], why: str | None
) -> None:
    model = Model()
    state = HostState(model)
    act(model)
    assert state.what_moved() == why
