"""When a step is captured, replayed, captured anew or given up, without a device.

The graph that stands in for CUDA's does the step again at each replay, from the slots, so that a
training with it must equal the plain one.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hasten.step import capture as capture_module
from hasten.step import graph as graph_module
from hasten.step import tape
from hasten.step.capture import Capture
from hasten.step.eager import EagerStep
from hasten.step.graph import MISFITS, MOVES, WARM_STEPS, GraphStep
from hasten.task.pipeline import Pipeline
from hasten.techniques.whole_step_graph import _not_capturable


class Stream:
    def __init__(self, *_: Any) -> None: ...
    def wait_stream(self, other: Any) -> None: ...


class RepeatingGraph:
    """Does at each replay what was done while it was made, with the same tensors."""

    def __init__(self) -> None:
        self.work: Callable[[], None] = lambda: None

    def replay(self) -> None:
        self.work()


compute = Capture._compute


def compute_and_take_back(capture: Capture) -> Tensor:
    """A capture computes nothing: what a step without a device has done is undone."""
    pipeline = capture._pipeline
    tensors = [*pipeline.model.state_dict().values(), capture.tape._values, capture.tape._place]
    tensors += [each.grad for each in pipeline.model.parameters() if each.grad is not None]
    for optimizer in pipeline.optimizers:
        for held in optimizer.state.values():
            tensors += [value for value in held.values() if isinstance(value, Tensor)]
    if isinstance(capture._carried, Tensor):
        tensors.append(capture._carried)
    before = [each.clone() for each in tensors]
    loss = compute(capture)
    for tensor, value in zip(tensors, before, strict=True):
        tensor.copy_(value)

    def work() -> None:
        with capture_module._rates_as_tensors(capture._groups):
            capture._loss.copy_(compute(capture))
        for parameter, gradient in capture._gradients:
            if gradient is not None and parameter.grad is not None:
                gradient.copy_(parameter.grad)

    graph: Any = capture._graph
    graph.work = work
    return loss


@contextlib.contextmanager
def nothing_captured(*_: Any) -> Iterator[None]:
    yield


@contextlib.contextmanager
def no_syncs() -> Iterator[list[str]]:
    yield []


@pytest.fixture(autouse=True)
def _no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", RepeatingGraph)
    monkeypatch.setattr(Capture, "_compute", compute_and_take_back)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", nothing_captured)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda *_: None)
    monkeypatch.setattr(capture_module, "_capturing", nothing_captured)
    monkeypatch.setattr(graph_module, "noting_syncs", no_syncs)


def pair(rows: int = 8) -> list[Tensor]:
    return [torch.randn(rows, 4), torch.randn(rows, 1)]


def loss_of(model: nn.Module, batch: Any) -> Tensor:
    return F.mse_loss(model(batch[0]), batch[1])


class Training:
    def __init__(self, forward: Callable[..., Any] = loss_of) -> None:
        torch.manual_seed(0)
        plain = nn.Linear(4, 4, bias=False)  # one before BatchNorm would have a gradient of noise
        self.model = nn.Sequential(plain, nn.BatchNorm1d(4), nn.Linear(4, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.125)
        self.pipeline = Pipeline.from_loop(self.model, [], self.optimizer, forward=forward)
        self.eager = EagerStep(self.pipeline)
        self.step = GraphStep(self.eager)

    def steps(self, count: int, rows: int = 8) -> None:
        for _ in range(count):
            self.step(pair(rows))

    def capture(self) -> Capture:
        self.steps(WARM_STEPS + 1)
        assert self.step.is_captured
        assert self.step._capture is not None
        return self.step._capture


def test_it_is_captured_after_the_warm_steps_and_replayed() -> None:
    it = Training()
    it.steps(WARM_STEPS)
    assert it.step.is_warming
    assert it.step.replay(pair()) is None
    it.steps(1)
    assert it.step.is_captured
    assert it.step.replay(pair()) is not None
    assert it.step.replay(pair(5)) is None


def clear_state(it: Training) -> None:
    it.optimizer.state.clear()


def other_forward(it: Training) -> None:
    it.pipeline.forward = lambda model, batch: loss_of(model, batch) * 2


def clip(it: Training) -> None:
    it.pipeline.clip_norm = 0.5


@pytest.mark.parametrize("change", [clear_state, other_forward, clip])
def test_where_something_moved_it_is_captured_anew(change: Callable[[Training], None]) -> None:
    it = Training()
    first = it.capture()
    change(it)
    assert it.step.replay(pair()) is None
    it.steps(1)
    assert it.step.is_warming
    assert it.capture() is not first


def assign(it: Training) -> None:
    state = {key: value.clone() for key, value in it.model.state_dict().items()}
    it.model.load_state_dict(state, assign=True)  # the optimizer keeps the old ones


def move_weights(it: Training) -> None:
    for parameter in it.model.parameters():
        parameter.data = parameter.data.clone()


def empty_gradients(it: Training) -> None:
    it.optimizer.zero_grad()


def own_backward(it: Training) -> None:
    it.pipeline.forward(it.model, pair()).backward()


def set_rate(it: Training) -> None:
    it.optimizer.param_groups[0]["lr"] = 0.5


def set_betas(it: Training) -> None:
    it.optimizer.param_groups[0]["betas"] = (0.5, 0.5)


def partial_batches(it: Training) -> None:
    it.steps(MISFITS + 9, rows=5)


CHANGES = [
    clear_state,
    other_forward,
    clip,
    assign,
    move_weights,
    empty_gradients,
    own_backward,
    set_rate,
    set_betas,
    partial_batches,
]


@pytest.mark.parametrize("change", CHANGES)
def test_the_training_is_the_plain_one_whatever_the_loop_changes(
    change: Callable[[Training], None],
) -> None:
    ends = []
    for captured in (False, True):
        it = Training()
        if not captured:
            it.step.refusal = "the plain training"
        torch.manual_seed(1)
        it.steps(WARM_STEPS + 4)
        assert it.step.is_captured is captured
        change(it)
        it.steps(WARM_STEPS + 4)
        gradients = [each.grad for each in it.model.parameters() if each.grad is not None]
        ends.append([*it.model.state_dict().values(), *gradients])
    for one, other in zip(*ends, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_a_training_that_moves_all_the_time_is_given_up() -> None:
    it = Training()
    for _ in range(MOVES):
        it.capture()
        clear_state(it)
        it.steps(1)
        assert it.step.refusal is None
    it.capture()
    clear_state(it)
    it.steps(1)
    assert it.step.refusal is not None
    assert f"were replaced {MOVES + 1} times" in it.step.refusal


def test_a_group_that_is_added_gives_it_up() -> None:
    it = Training()
    it.capture()
    it.optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]})
    it.steps(1)
    assert it.step.refusal == "the optimizer's params moved, and a graph has it baked in"
    assert it.step.replay(pair()) is None


def test_batches_of_another_shape_are_captured_once_they_are_the_usual_ones() -> None:
    it = Training()
    first = it.capture()
    it.steps(MISFITS, rows=5)
    it.steps(1)
    assert it.step._capture is first
    it.steps(MISFITS, rows=5)
    assert it.step._capture is first
    it.steps(WARM_STEPS, rows=5)
    assert it.step.is_warming
    it.steps(1, rows=5)
    assert it.step.is_captured
    assert it.step.replay(pair(5)) is not None
    assert it.step.refusal is None


def test_now_and_then_a_partial_batch_changes_nothing() -> None:
    it = Training()
    first = it.capture()
    for _ in range(2 * MISFITS):
        it.steps(1, rows=5)
        assert it.step.replay(pair()) is not None
    assert it.step._capture is first


class Special(Tensor):
    pass


def special() -> list[Tensor]:
    return [each.as_subclass(Special) for each in pair()]


def test_batches_that_a_graph_cannot_take_run_eagerly() -> None:
    it = Training()
    first = it.capture()
    for _ in range(MISFITS):
        it.step(special())
    assert it.step._capture is first
    it.steps(1)
    assert it.step._capture is first
    for _ in range(MISFITS + 1):
        it.step(special())
    assert it.step.refusal is not None
    assert it.step.refusal.endswith("Special, which a graph cannot take")


def loss_of_arrays(model: nn.Module, batch: Any) -> Tensor:
    return F.mse_loss(model(batch[0]), torch.as_tensor(batch[1]))


def test_a_batch_with_arrays_is_refused_with_the_reason() -> None:
    it = Training(loss_of_arrays)
    it.step([torch.randn(8, 4), np.zeros((8, 1), dtype=np.float32)])
    assert it.step.refusal == "batches hold objects of numpy.ndarray, which a graph cannot take"


def test_batches_with_names_beside_the_tensors_are_captured() -> None:
    it = Training(lambda model, batch: loss_of(model, (batch["x"], batch["y"])))
    for _ in range(WARM_STEPS + 1):
        inputs, targets = pair()
        it.step({"x": inputs, "y": targets, "names": ["a", "b"], "more": None})
    assert it.step.is_captured


class Forgetful(torch.optim.Adam):
    """Whoever writes an optimizer may put new tensors in the place of the old."""

    def step(self, closure: Any = None) -> Any:
        super().step(closure)
        for held in self.state.values():
            held["exp_avg"] = held["exp_avg"].clone()


def test_an_optimizer_that_replaces_its_state_is_refused() -> None:
    it = Training()
    it.pipeline.optimizers[0] = Forgetful(it.model.parameters())
    it.steps(2)
    assert it.step.refusal == "Forgetful keeps another state after each step"


def carrying() -> Training:
    def forward(model: nn.Module, batch: Any, state: Tensor) -> tuple[Tensor, Tensor]:
        return loss_of(model, batch) + state.sum() * 0, state + 1

    it = Training(forward)
    it.pipeline.initial_state = lambda: torch.zeros(2)
    return it


def test_a_new_state_is_noted_for_a_redo_before_it_is_taken() -> None:
    it = carrying()
    it.capture()
    noted = []
    it.eager.before = lambda: noted.append(it.pipeline.carried_state)
    it.eager.start_epoch()
    begun = it.pipeline.carried_state
    assert it.step.replay(pair()) is None
    assert it.pipeline.carried_state is begun
    it.steps(1)
    assert noted == [begun]
    assert it.step.replay(pair()) is not None


def test_a_state_that_cannot_be_made_leaves_losses_in_step() -> None:
    it = carrying()
    capture = it.capture()
    one = it.step.replay(pair())

    def fail() -> Tensor:
        raise ValueError("no state")

    made, it.pipeline.initial_state = it.pipeline.initial_state, fail
    it.pipeline.carried_state = None
    assert it.step.replay(pair()) is None
    with pytest.raises(ValueError, match="no state"):
        it.step(pair())
    it.pipeline.initial_state = made
    other = it.step(pair())
    assert it.step._capture is capture
    assert one is not None
    assert other.data_ptr() - one.data_ptr() == one.element_size()


def test_a_full_tape_is_replaced_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape, "LENGTH", 4)
    it = Training()
    first = it.capture()
    it.steps(3)
    assert it.step._capture is first
    it.steps(1)
    assert it.step.is_captured
    assert it.step._capture is not first


def test_a_rate_that_is_a_tensor_on_the_host_is_refused() -> None:
    it = Training()
    optimizer = torch.optim.Adam(it.model.parameters(), lr=torch.tensor(0.1))
    assert _not_capturable(it.optimizer, it.pipeline) is None
    assert _not_capturable(optimizer, it.pipeline) == (
        "the learning rate of Adam is a tensor on the host, which a graph cannot read"
    )
