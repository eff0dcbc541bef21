"""No state instead of zeros, to the bit; a state that is anything else is left alone."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from arms import first_difference, trace
from hasten.records.plan import Plan, RawPart
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.traits import read_traits
from hasten.techniques.recurrent_state import RecurrentStateTechnique
from trainings import WIDTH, Recurrent, make_training, zero_state

kinds = pytest.mark.parametrize("state", ["none", "kept"])


def plan_of(state: str) -> Plan:
    return Plan(parts={"recurrent_state": {"state": state}})


@kinds
def test_it_is_equal_to_the_bit_and_asks_once_for_each_size(state: str) -> None:
    """The epoch's last batch is a smaller one."""
    plain = trace(make_training("recurrent"), Plan(), "whole")
    pipeline, sizes = make_training("recurrent"), []

    def watched(batch: Any) -> Any:
        sizes.append(len(batch[0]))
        return zero_state(batch)

    pipeline.initial_state = watched
    changed = trace(pipeline, plan_of(state), "whole")
    assert changed.run is not None
    assert [each.outcome for each in changed.run.applied] == ["done"]
    assert first_difference(plain, changed) == ""
    assert sizes == [6, 4]


@kinds
def test_what_the_model_is_given(state: str) -> None:
    pipeline, given = make_training("recurrent"), []
    forward = pipeline.forward

    def watched(model: Any, batch: Any, state: Any) -> Any:
        given.append(state)
        return forward(model, batch, state)

    pipeline.forward = watched
    run = Run(pipeline, plan_of(state))
    batch = next(iter(run.dataloader))
    run.step(batch), run.step(batch)
    if state == "none":
        assert given[1:] == [None, None, None]
        assert not any(bool(each.any()) for each in given[0])  # compared once with no state
        assert run.applied[0].why == "the model is given no state"
    else:
        assert all(one is other for one, other in zip(*given, strict=True))
        assert [each.shape for each in given[0]] == [(2, 6, WIDTH)] * 2
        assert run.applied[0].why == "the model is given zeros that stay on the device"


def ones(batch: Any) -> tuple[Tensor, Tensor]:
    return zero_state(batch)[0] + 1, zero_state(batch)[1]


def learned(batch: Any) -> tuple[Tensor, Tensor]:
    return zero_state(batch)[0].requires_grad_(), zero_state(batch)[1]


@kinds
@pytest.mark.parametrize("initial", [ones, learned, lambda batch: None])
def test_a_state_that_is_not_zeros_is_refused_and_trains_as_without(
    initial: Any, state: str
) -> None:
    def make() -> Pipeline:
        pipeline = make_training("recurrent")
        pipeline.initial_state = initial
        return pipeline

    plain = trace(make(), Plan(), "whole")
    changed = trace(make(), plan_of(state), "whole")
    assert changed.run is not None
    assert [str(each) for each in changed.run.applied] == [
        "recurrent_state: fell back (CannotApply: the state does not begin as zeros)"
    ]
    assert changed.run.pipeline.initial_state is initial
    assert first_difference(plain, changed) == ""


class Odd(Recurrent):
    """Has a mind of its own about no state; it counts and draws, which a check must not move."""

    def __init__(self, without: str) -> None:
        super().__init__()
        self.without = without
        self.calls = 0
        self.register_buffer("batches", torch.zeros(()))
        fill = torch.zeros if without == "learned" else torch.ones
        self.start = nn.Parameter(fill(2, 1, WIDTH))

    def forward(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        self.calls += 1
        self.batches.add_(1)
        inputs = inputs * (1 + 0.1 * torch.rand(())) / self.calls
        if state is None and self.without in ("learned", "ones"):
            start = self.start.expand(2, len(inputs), WIDTH).contiguous()
            state = start, start
        if state is None and self.without == "fails":
            raise ValueError("a state is needed")
        return super().forward(inputs, state)


def make_odd(without: str) -> Pipeline:
    pipeline = make_training("recurrent")
    torch.manual_seed(3)
    pipeline.model = Odd(without)
    pipeline.optimizers = [torch.optim.AdamW(pipeline.model.parameters(), lr=1e-2)]
    return pipeline


@pytest.mark.parametrize(
    ("without", "why"),
    [
        ("zeros", None),
        ("ones", "the model computes something else without a state than from zeros"),
        ("learned", "the model learns something else without a state than from zeros"),
        ("fails", "the model does not do without a state: a state is needed"),
    ],
)
def test_a_model_to_which_no_state_is_not_zeros_is_refused(without: str, why: str | None) -> None:
    plain = trace(make_odd(without), Plan(), "whole")
    changed = trace(make_odd(without), plan_of("none"), "whole")
    assert changed.run is not None
    (said,) = changed.run.applied
    if why is None:
        assert said.outcome == "done"
    else:
        assert str(said) == f"recurrent_state: fell back (CannotApply: {why})"
    assert first_difference(plain, changed) == ""
    assert changed.run.model.training
    assert changed.run.model.calls == 4


def carried(pipeline: Pipeline) -> Pipeline:
    """One state for an epoch, of the size of every batch; the partial one is left out."""
    pipeline.loader = list(pipeline.loader)[:3]
    pipeline.state_resets = "epoch"
    pipeline.initial_state = lambda: (torch.zeros(2, 6, WIDTH), torch.zeros(2, 6, WIDTH))
    return pipeline


@kinds
def test_a_state_that_is_carried_is_left_alone(state: str) -> None:
    plain = trace(carried(make_training("recurrent")), Plan(), "whole")
    changed = trace(carried(make_training("recurrent")), plan_of(state), "whole")
    assert changed.run is not None
    assert [str(each) for each in changed.run.applied] == [
        "recurrent_state: skipped (the state is carried from batch to batch, which must stay so)"
    ]
    assert first_difference(plain, changed) == ""


def test_the_traits_tell_where_there_is_something_to_do() -> None:
    technique = RecurrentStateTechnique()
    reasons = [
        technique.unsuited(read_traits(pipeline))
        for pipeline in (
            make_training("recurrent"),
            carried(make_training("recurrent")),
            make_training("perceptron"),
        )
    ]
    nothing = "no state begins anew with each batch"
    assert reasons == [None, nothing, nothing]


def test_its_settings_are_closed() -> None:
    parts: list[RawPart] = [{"state": "none"}, {"state": "kept"}]
    for part in parts:
        run = Run(make_training("recurrent"), Plan(parts={"recurrent_state": part}))
        assert run.applied[0].outcome == "done"
