"""What a captured step holds and what it notices, with a graph that only counts its replays."""

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hasten.step import capture as module
from hasten.step.capture import Capture
from hasten.step.eager import EagerStep
from hasten.task.pipeline import Pipeline


class CountingGraph:
    def __init__(self) -> None:
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1


@contextlib.contextmanager
def nothing_captured(*_: Any) -> Iterator[None]:
    yield


@pytest.fixture(autouse=True)
def _no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", CountingGraph)
    monkeypatch.setattr(module, "_capturing", nothing_captured)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.body = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.head(self.norm(self.body(self.frozen(inputs))))
        return output


def pair() -> tuple[Tensor, Tensor]:
    return torch.randn(8, 4), torch.randn(8, 1)


class Captured:
    """A training that was captured: the optimizer has a parameter that is not the model's, and the
    model's head, which is trained, is in no optimizer."""

    def __init__(self, scaler: torch.amp.GradScaler | None = None) -> None:
        torch.manual_seed(0)
        self.model = Model()
        self.extra = nn.Parameter(torch.ones(1))
        trained = [*self.model.body.parameters(), *self.model.norm.parameters(), self.extra]
        self.optimizer = torch.optim.Adam(trained, lr=0.125)
        self.pipeline = Pipeline.from_loop(
            self.model,
            [],
            self.optimizer,
            forward=lambda model, batch: F.mse_loss(model(batch[0]) * self.extra, batch[1]),
            clip_norm=1.0,
        )
        self.pipeline.scaler = scaler
        self.eager = EagerStep(self.pipeline)
        for _ in range(3):
            self.eager(pair())
        self.capture = self.make_capture()
        assert self.capture.replay(pair()) is not None

    def make_capture(self) -> Capture:
        return Capture(self.eager, pair(), None)  # type: ignore[arg-type]

    @property
    def replays(self) -> int:
        graph: Any = self.capture._graph
        count: int = graph.replays
        return count

    @property
    def group(self) -> dict[str, Any]:
        return self.optimizer.param_groups[0]


def replace_state(it: Captured) -> None:
    for held in it.optimizer.state.values():
        held["exp_avg"] = held["exp_avg"].clone()


def assign(it: Captured) -> None:
    state = {key: value.clone() for key, value in it.model.state_dict().items()}
    it.model.load_state_dict(state, assign=True)


def move_frozen(it: Captured) -> None:
    it.model.frozen.weight.data = it.model.frozen.weight.data.clone()


def move_extra(it: Captured) -> None:
    it.extra.data = it.extra.data.clone()


def move_buffer(it: Captured) -> None:
    it.model.norm.running_mean = torch.zeros(4)


def add_buffer(it: Captured) -> None:
    it.model.norm.register_buffer("more", torch.zeros(1))


def drop_bias(it: Captured) -> None:
    it.model.head.bias = None


MOVES: dict[str, Callable[[Captured], Any]] = {
    "state cleared": lambda it: it.optimizer.state.clear(),
    "state of one parameter dropped": lambda it: it.optimizer.state.pop(it.extra),
    "state replaced": replace_state,
    "state loaded": lambda it: it.optimizer.load_state_dict(it.optimizer.state_dict()),
    "model loaded by assigning": assign,
    "frozen weight moved": move_frozen,
    "parameter outside of the model moved": move_extra,
    "parameter outside of the model frozen": lambda it: it.extra.requires_grad_(False),
    "unfrozen": lambda it: it.model.frozen.requires_grad_(True),
    "frozen": lambda it: it.model.body.requires_grad_(False),
    "buffer replaced": move_buffer,
    "buffer added": add_buffer,
    "parameter dropped": drop_bias,
    "another optimizer": lambda it: it.pipeline.optimizers.append(
        torch.optim.SGD(it.model.head.parameters())
    ),
    "gradients that no optimizer empties": lambda it: it.model.zero_grad(),
    "clip_norm": lambda it: setattr(it.pipeline, "clip_norm", 0.5),
    "no clip_norm": lambda it: setattr(it.pipeline, "clip_norm", None),
    "forward": lambda it: setattr(it.pipeline, "forward", lambda model, batch: model(batch[0])),
    "scaler": lambda it: setattr(it.pipeline, "scaler", torch.amp.GradScaler("cpu")),
    "micro_batches": lambda it: setattr(it.pipeline, "micro_batches", 2),
}


@pytest.mark.parametrize("name", MOVES)
def test_what_moved_is_noticed_before_a_replay(name: str) -> None:
    it = Captured()
    MOVES[name](it)
    before = it.replays
    assert it.capture.replay(pair()) is None
    assert it.replays == before
    assert it.capture.has_moved() or it.capture.changed_setting()


SETTINGS: dict[str, tuple[Callable[[Captured], Any], str]] = {
    "group added": (
        lambda it: it.optimizer.add_param_group({"params": [*it.model.head.parameters()]}),
        "params",
    ),
    "parameter added": (lambda it: it.group["params"].append(it.model.head.weight), "params"),
    "betas": (lambda it: it.group.update(betas=(0.5, 0.5)), "betas"),
    "a new key": (lambda it: it.group.update(more=1), "more"),
    "a key less": (lambda it: it.group.pop("maximize"), "maximize"),
    "the rate as a tensor": (lambda it: it.group.update(lr=torch.tensor(0.5)), "lr"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_moved_is_noticed_and_named(name: str) -> None:
    it = Captured()
    change, setting = SETTINGS[name]
    change(it)
    before = it.replays
    assert it.capture.replay(pair()) is None
    assert it.replays == before
    assert it.capture.changed_setting() == setting


def same_values(it: Captured) -> None:
    it.model.load_state_dict(it.model.state_dict())
    it.group["weight_decay"] = float("0")
    it.group["betas"] = (*it.group["betas"],)


def test_what_is_written_in_place_goes_on() -> None:
    it = Captured()
    same_values(it)
    assert it.capture.replay(pair()) is not None
    assert it.capture.changed_setting() is None
    assert not it.capture.has_moved()


def test_the_rate_follows_the_hosts() -> None:
    it = Captured()
    rate = it.capture._groups[0].rate
    assert rate is not None
    it.group["lr"] = 0.25
    assert it.capture.replay(pair()) is not None
    assert float(rate) == 0.25
    assert it.group["lr"] == 0.25


@pytest.mark.parametrize("name", ["_scale", "_growth_tracker", "_growth_interval"])
def test_a_scaler_that_is_not_what_it_was_is_noticed(name: str) -> None:
    it = Captured(torch.amp.GradScaler("cpu", init_scale=4.0))
    scaler: Any = it.pipeline.scaler
    scaler.load_state_dict(scaler.state_dict())
    assert it.capture.replay(pair()) is not None
    value = getattr(scaler, name)
    setattr(scaler, name, value.clone() if isinstance(value, Tensor) else value + 1)
    assert it.capture.replay(pair()) is None
    assert it.capture.has_moved()


def test_a_scaler_that_is_switched_off_is_no_hindrance() -> None:
    it = Captured(torch.amp.GradScaler("cpu", enabled=False))
    assert it.capture.replay(pair()) is not None


def test_a_buffer_without_an_address_is_told_by_itself() -> None:
    it = Captured()
    it.model.register_buffer("graph", torch.eye(4).to_sparse())
    it.capture = it.make_capture()
    assert it.capture.replay(pair()) is not None
    it.model.graph = torch.eye(4).to_sparse()
    assert it.capture.replay(pair()) is None


def test_nothing_is_freed_while_the_graph_lives() -> None:
    it = Captured(torch.amp.GradScaler("cpu"))
    kept = [
        it.model.norm.running_mean,
        it.model.body.weight,
        it.model.frozen.weight,
        it.extra,
        *[each for each in it.optimizer.state[it.extra].values() if isinstance(each, Tensor)],
    ]
    places = [each.data_ptr() for each in kept if each is not None]
    scale = it.pipeline.scaler._scale if it.pipeline.scaler else None
    assert scale is not None
    del kept
    it.optimizer.state.clear()
    it.pipeline.scaler = None
    for tensor in (*it.model.parameters(), it.extra):
        tensor.data = torch.zeros_like(tensor)
    it.model.norm.running_mean = torch.zeros(4)
    gc.collect()
    baked = it.capture._baked
    held = [*baked._memory, *baked._states[0]._memory]
    assert {each.data_ptr() for each in held} >= set(places)
    assert any(each is scale for each in baked._scaler)


@pytest.mark.parametrize("empty", [True, False])
def test_gradients_are_the_graphs_after_a_replay(empty: bool) -> None:
    it = Captured()
    gradient = it.model.body.weight.grad
    assert gradient is not None
    if empty:
        it.optimizer.zero_grad()
    else:
        it.model.body.weight.grad = torch.zeros(4, 4)
    assert it.capture.replay(pair()) is not None
    assert it.model.body.weight.grad is gradient
    assert it.extra.grad is not None


def test_a_step_that_came_between_is_followed_by_the_graphs_gradients() -> None:
    it = Captured()
    gradient, norm = it.extra.grad, it.eager.gradient_norm
    it.eager(pair())
    it.capture.misfits = 3
    assert it.extra.grad is not gradient
    assert it.capture.replay(pair()) is not None
    assert it.extra.grad is gradient
    assert it.eager.gradient_norm is norm
    assert it.capture.misfits == 0


class BrokenError(Exception):
    pass


def carrying() -> Captured:
    it = Captured()
    it.pipeline.initial_state = lambda: torch.zeros(2)
    it.pipeline.forward = lambda model, batch, state: (
        F.mse_loss(model(batch[0]) + state.sum(), batch[1]),
        state + 1,
    )
    it.eager(pair())
    it.capture = it.make_capture()
    return it


def test_a_state_that_must_be_taken_is_taken_apart_and_leaves_the_tape_alone() -> None:
    it = carrying()
    first = it.capture.replay(pair())
    assert first is not None

    def fail() -> Tensor:
        raise BrokenError

    it.pipeline.initial_state, it.pipeline.carried_state = fail, None
    assert it.capture.replay(pair()) is None
    assert not it.capture.has_moved()
    with pytest.raises(BrokenError):
        it.capture.take_state()
    it.pipeline.initial_state = lambda: torch.full((2,), 5.0)
    assert it.capture.take_state()
    assert it.pipeline.carried_state.tolist() == [5.0, 5.0]
    second = it.capture.replay(pair())
    assert second is not None
    assert second.data_ptr() - first.data_ptr() == first.element_size()


@pytest.mark.parametrize(
    "state", [torch.zeros(3), (torch.zeros(2),), torch.zeros(2, requires_grad=True), None]
)
def test_a_state_of_another_form_is_not_taken(state: Any) -> None:
    it = carrying()
    it.pipeline.initial_state = lambda: None
    it.pipeline.carried_state = state
    assert not it.capture.take_state()
    assert it.pipeline.carried_state is state


def test_a_step_that_may_have_touched_the_weights_says_so() -> None:
    it = Captured()
    it.eager.updating = False
    it.capture.replay(pair())
    assert it.eager.updating


def test_a_capture_that_fails_has_touched_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Captured()

    def fail() -> None:
        raise BrokenError

    monkeypatch.setattr(it.optimizer, "step", fail)
    with pytest.raises(BrokenError):
        it.make_capture()
    assert not it.eager.updating
    assert it.group["lr"] == 0.125


def test_what_a_step_asks_of_its_batch_does_not_reach_the_slots() -> None:
    it = Captured()
    it.pipeline.forward = lambda model, batch: F.mse_loss(
        model(batch[0].requires_grad_()), batch[1]
    )
    it.capture = it.make_capture()
    assert it.capture.replay(pair()) is not None
