"""Flags of optimizers are set and put back whole."""

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import Optimizer

from hasten.step.optimizers import set_flags
from torch_state import optimizer_bits


def make(kind: type[Optimizer], steps: int, **options: Any) -> tuple[nn.Module, Optimizer]:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = kind(
        [{"params": [model.weight]}, {"params": [model.bias], "lr": 0.5}], lr=0.1, **options
    )
    for _ in range(steps):
        step(model, optimizer)
    return model, optimizer


def step(model: nn.Module, optimizer: Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.ones(4, 3)).square().sum().backward()
    optimizer.step()


KINDS = [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad]


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize("options", [{}, {"fused": True}, {"foreach": True}, {"foreach": False}])
@pytest.mark.parametrize("kind", KINDS)
def test_flags_that_are_set_and_put_back_leave_no_trace(
    kind: type[Optimizer], options: dict[str, bool], steps: int
) -> None:
    _, optimizer = make(kind, steps, **options)
    before = optimizer_bits(optimizer)
    undo = set_flags(optimizer, fused=True, foreach=False)
    assert all(group["fused"] and not group["foreach"] for group in optimizer.param_groups)
    assert optimizer.defaults["fused"] is True
    assert vars(optimizer)["_step_supports_amp_scaling"] is True
    undo()
    assert optimizer_bits(optimizer) == before
    undo()
    assert optimizer_bits(optimizer) == before


@pytest.mark.parametrize("kind", KINDS)
def test_an_optimizer_whose_flags_were_set_is_as_one_that_was_made_so(
    kind: type[Optimizer],
) -> None:
    (model, changed), (twin, made) = make(kind, 2), make(kind, 0, fused=True)
    twin.load_state_dict(model.state_dict())
    set_flags(changed, fused=True, foreach=False)
    state = copy.deepcopy(changed.state_dict())
    made.load_state_dict(state)
    for _ in range(2):
        step(model, changed)
        step(twin, made)
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_group_that_was_added_since_gets_the_defaults_of_before() -> None:
    model, optimizer = make(torch.optim.AdamW, 1)
    undo = set_flags(optimizer, fused=True, foreach=False)
    extra = nn.Parameter(torch.ones(2))
    optimizer.add_param_group({"params": [extra]})
    assert optimizer.param_groups[2]["fused"] is True
    undo()
    assert [group["fused"] for group in optimizer.param_groups] == [None, None, None]
    step(model, optimizer)


def test_capturable_alone_leaves_the_rest() -> None:
    _, optimizer = make(torch.optim.Adam, 1)
    undo = set_flags(optimizer, capturable=True)
    assert all(group["capturable"] for group in optimizer.param_groups)
    assert all(group["fused"] is None for group in optimizer.param_groups)
    assert "_step_supports_amp_scaling" not in vars(optimizer)
    undo()
    assert not any(group["capturable"] for group in optimizer.param_groups)
