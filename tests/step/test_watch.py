"""What a step does on the host, seen without a device."""

import random
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from hasten.step.watch import HostState, hearing_syncs, noting_syncs
from sync_marks import pretend_sync_mode, wait


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


def replace_state(optimizer: torch.optim.Optimizer) -> None:
    for held in optimizer.state.values():
        held["exp_avg"] = held["exp_avg"].clone()


def count_in_state(optimizer: torch.optim.Optimizer) -> None:
    for held in optimizer.state.values():
        held["calls"] = held.get("calls", 0) + 1


@pytest.mark.parametrize(
    ("act", "moves"),
    [
        (lambda optimizer: optimizer.step(), False),
        (replace_state, True),
        (count_in_state, True),
        (lambda optimizer: optimizer.state.clear(), True),
    ],
)
def test_a_state_that_an_optimizer_does_not_write_in_place_is_noticed(
    act: Callable[[torch.optim.Optimizer], object], moves: bool
) -> None:
    model = Model()
    optimizer = torch.optim.Adam(model.parameters())
    model.inner(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    state = HostState(model, [optimizer])
    act(optimizer)
    assert state.what_moved() == ("Adam keeps another state after each step" if moves else None)


@pytest.fixture
def sync_mode(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    return pretend_sync_mode(monkeypatch)


def test_each_wait_is_heard_at_once_and_other_warnings_are_left_alone(
    sync_mode: list[object],
) -> None:
    heard: list[int] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        show = warnings.showwarning
        with hearing_syncs(lambda _, line: heard.append(line)):
            for count in range(3):
                wait()
                assert len(heard) == count + 1
            warnings.warn("of the user's own", stacklevel=1)
        assert warnings.showwarning is show
    assert [str(each.message) for each in caught] == ["of the user's own"]
    assert heard == [wait.__code__.co_firstlineno + 2] * 3
    assert sync_mode == [0, "warn", 0]


def wait_and_raise() -> None:
    with noting_syncs() as found:
        wait()
        assert len(found) == 1
        raise ArithmeticError


def test_the_mode_is_put_back_where_the_block_raises(sync_mode: list[object]) -> None:
    with pytest.raises(ArithmeticError):
        wait_and_raise()
    assert sync_mode == [0, "warn", 0]
