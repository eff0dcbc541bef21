"""The whole step as one CUDA graph: equal to the eager step, and never replayed stale."""

import copy
import random
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, OneCycleLR
from torch.utils.data import DataLoader, TensorDataset

from hasten.records.plan import Plan
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
CUDA = torch.device("cuda")
FUSED: dict[str, Any] = {"fused_optimizer": {}}
GRAPH: dict[str, Any] = {"whole_step_graph": {}}
FP16: dict[str, Any] = {"mixed_precision": {"dtype": "fp16"}}


def network() -> nn.Module:
    return nn.Sequential(
        nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 8)
    )


def cross_entropy(model: nn.Module, batch: Any) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


def warming_up(optimizer: torch.optim.Optimizer) -> LRScheduler:
    return LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 10) * 0.97**step)


def make_pipeline(
    make_model: Callable[[], nn.Module] = network,
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW,
    scheduler: Callable[[Any], LRScheduler] | None = None,
    forward: Callable[..., Any] = cross_entropy,
    **loading: Any,
) -> Pipeline:
    torch.manual_seed(3)
    model = make_model().to(CUDA)
    rows = TensorDataset(torch.randn(500, 32), torch.randint(0, 8, (500,)))
    made = optimizer(model.parameters(), lr=3e-3)
    return Pipeline(
        model=model,
        loader=DataLoader(rows, **{"batch_size": 64, "shuffle": True, **loading}),
        optimizers=[made],
        forward=forward,
        device=CUDA,
        clip_norm=0.5,
        schedulers=[scheduler(made)] if scheduler else [],
    )


Between = Callable[[int, Run], None]


def train(
    pipeline: Pipeline,
    parts: dict[str, Any],
    steps: int = 60,
    *,
    between: Between = lambda number, run: None,
    poisoned: int | None = None,
) -> tuple[Run, list[Tensor], list[Tensor]]:
    """The run, its losses, and all weights, buffers and optimizer state at the end."""
    torch.manual_seed(4)
    run, losses = Run(pipeline, Plan(parts=parts)), []
    for number, batch in zip(range(steps), run.endless(), strict=False):
        between(number, run)
        if number == poisoned:
            batch = [torch.full_like(batch[0], float("inf")), batch[1]]
        losses.append(run.step(batch))
    state = [*pipeline.model.state_dict().values()]
    for held in pipeline.optimizers[0].state_dict()["state"].values():
        state += [value for value in held.values() if isinstance(value, Tensor)]
    return run, losses, [each.detach().cpu().clone() for each in state]


def is_captured(run: Run) -> bool:
    return "whole_step_graph: done (captured)" in [str(each) for each in run.applied]


def reason(run: Run) -> str:
    return next(str(each) for each in run.applied if each.technique == "whole_step_graph")


def assert_equal(one: tuple[Any, list[Tensor], list[Tensor]], other: Any) -> None:
    for found, expected in zip(one[1] + one[2], other[1] + other[2], strict=True):
        assert torch.equal(found.cpu().nan_to_num(7.0), expected.cpu().nan_to_num(7.0))


def evaluate_and_save(number: int, run: Run) -> None:
    """At step 20 an evaluation, at step 40 a checkpoint is written and read again."""
    if number == 20:
        run.model.eval()
        with torch.no_grad():
            run.model(torch.randn(64, 32, device=CUDA))
            run.model(torch.randn(10, 32, device=CUDA))
        run.model.train()
    if number == 40:
        model, optimizer = run.model, run.optimizer
        kept = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        model.load_state_dict(kept[0])
        optimizer.load_state_dict(kept[1])


def test_it_equals_eager_to_the_bit_with_scaler_clip_scheduler_dropout_and_an_inf() -> None:
    """Partial last batches, an evaluation and a checkpoint in between."""
    arms = [
        train(
            make_pipeline(scheduler=warming_up),
            {**FUSED, **FP16, **more},
            between=evaluate_and_save,
            poisoned=30,
        )
        for more in ({}, GRAPH)
    ]
    assert is_captured(arms[1][0])
    assert_equal(*arms)
    scales = [arm[0].pipeline.scaler.get_scale() for arm in arms]
    assert scales[0] == scales[1] < 65536.0  # the poisoned step was skipped


@pytest.mark.parametrize("data", ["resident_data", "overlapped_transfer", "batched_loader"])
def test_it_equals_eager_to_the_bit_whatever_brings_the_data(data: str) -> None:
    plain = train(make_pipeline(scheduler=warming_up), FUSED)
    captured = train(make_pipeline(scheduler=warming_up), {**FUSED, data: {}, **GRAPH})
    assert is_captured(captured[0])
    assert_equal(plain, captured)


def test_a_loader_with_workers_that_pin_memory_may_go_on_during_the_capture() -> None:
    loading = {"num_workers": 2, "pin_memory": True}
    arms = [train(make_pipeline(**loading), {**FUSED, **more}) for more in ({}, GRAPH)]
    assert is_captured(arms[1][0])
    assert_equal(*arms)


def test_a_replay_waits_for_nothing() -> None:
    run = Run(
        make_pipeline(scheduler=warming_up),
        Plan(parts={**FUSED, **FP16, "resident_data": {}, **GRAPH}),
    )
    source = run.endless()
    for _ in range(8):  # one epoch: the next one's indices are drawn and uploaded
        run.step(next(source))
    assert is_captured(run)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(20):
                run.step(next(source))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    waited = [each for each in caught if "synchronizing" in str(each.message)]
    assert [f"{each.filename}:{each.lineno}" for each in waited] == []


def test_dropout_differs_from_replay_to_replay() -> None:
    def forward(model: nn.Module, batch: Any) -> Tensor:
        return (
            model(torch.ones(64, 32, device=CUDA)).sum() * 0.0
            + F.dropout(torch.ones(4096, device=CUDA), 0.5).sum()
        )

    _, losses, _ = train(
        make_pipeline(forward=forward, drop_last=True), {**FUSED, **GRAPH}, steps=40
    )
    values = [float(each) for each in losses]
    assert len(set(values)) > 20
    assert all(abs(value / 8192 - 0.5) < 0.1 for value in values)


def test_losses_that_are_kept_stay_what_they_were() -> None:
    _, losses, _ = train(make_pipeline(), {**FUSED, **GRAPH})
    assert len({each.data_ptr() for each in losses}) == len(losses)


@pytest.mark.parametrize(
    "more",
    [
        {"compile": {}},
        {"activation_checkpointing": {}},
        {"gradient_accumulation": {"steps": 4}},
        {"mixed_precision": {"dtype": "bf16"}},
        {"late_readings": {}},
    ],
    ids=lambda more: next(iter(more)),
)
def test_it_holds_other_techniques_and_equals_them_eager(more: dict[str, Any]) -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.work = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2))

        def forward(self, inputs: Tensor) -> Tensor:
            return inputs + self.work(inputs)

    def blocks() -> nn.Module:
        return nn.Sequential(nn.Linear(32, 64), Residual(), Residual(), nn.Linear(64, 8))

    torch._dynamo.reset()
    arms = [train(make_pipeline(blocks), {**FUSED, **more, **graph}) for graph in ({}, GRAPH)]
    assert is_captured(arms[1][0])
    assert [each.outcome for each in arms[1][0].applied] == ["done"] * 3
    assert_equal(*arms)


class Carrying(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.GRU(4, 16, batch_first=True), nn.Linear(16, 8)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        output, state = self.layer(inputs.view(-1, 8, 4), state)
        return self.head(output[:, -1]), state


def test_carried_state_goes_from_replay_to_replay_and_begins_anew_each_epoch() -> None:
    def forward(model: nn.Module, batch: Any, state: Tensor) -> tuple[Tensor, Tensor]:
        output, state = model(batch[0], state)
        return F.cross_entropy(output, batch[1]), state

    arms = []
    for more in ({}, GRAPH):
        pipeline = make_pipeline(Carrying, forward=forward, drop_last=True)
        pipeline.initial_state = lambda: torch.zeros(1, 64, 16)
        arms.append(train(pipeline, {**FUSED, **more}))
    assert is_captured(arms[1][0])
    assert_equal(*arms)


class Waiting(nn.Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        output = super().forward(inputs)
        return output * 2 if output.sum().item() > 1e9 else output


class Drawing(nn.Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) * (1 + (random.random() > 2))


class Growing(nn.Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        self.calls = getattr(self, "calls", 0) + 1
        return super().forward(inputs) * (1 + self.calls % 7)


class Replacing(nn.Linear):
    def __init__(self, *size: int) -> None:
        super().__init__(*size)
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, inputs: Tensor) -> Tensor:
        output = super().forward(inputs)
        self.mean = 0.9 * self.mean + 0.1 * output.detach().mean(0)
        return output - self.mean


def sgd(parameters: Any, lr: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9)


def rate_on_host(parameters: Any, lr: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=torch.tensor(lr))


def one_cycle(optimizer: torch.optim.Optimizer) -> LRScheduler:
    return OneCycleLR(optimizer, max_lr=1e-2, total_steps=100)


@pytest.mark.parametrize(
    ("options", "parts", "words"),
    [
        ({"make_model": lambda: Waiting(32, 8)}, FUSED, "makes the host wait for the device"),
        ({"make_model": lambda: Drawing(32, 8)}, FUSED, "draws random numbers on the host"),
        ({"make_model": lambda: Growing(32, 8)}, FUSED, "the step changes calls of the model"),
        ({"make_model": lambda: Replacing(32, 8)}, FUSED, "the step changes mean of the model"),
        ({"scheduler": one_cycle}, FUSED, "OneCycleLR moves the momentum too"),
        ({"optimizer": sgd}, {}, "SGD cannot be captured unless it is fused"),
        ({}, FP16, "the scaler waits for the device before a AdamW that is not fused"),
        ({"optimizer": rate_on_host}, {}, "the learning rate of AdamW is a tensor on the host"),
    ],
    ids=["sync", "host draw", "counter", "buffer", "one cycle", "sgd", "scaler", "host rate"],
)
def test_it_refuses_with_the_reason_and_training_is_as_without_it(
    options: dict[str, Any], parts: dict[str, Any], words: str
) -> None:
    arms = [train(make_pipeline(**options), {**parts, **more}, 20) for more in ({}, GRAPH)]
    assert words in reason(arms[1][0])
    assert_equal(*arms)


def test_a_place_that_waits_is_named_by_file_and_line() -> None:
    run, _, _ = train(make_pipeline(lambda: Waiting(32, 8)), {**FUSED, **GRAPH}, 10)
    assert f"{__file__}:" in reason(run)


def test_short_epochs_with_a_partial_batch_are_captured_too() -> None:
    arms = [train(make_pipeline(batch_size=200), {**FUSED, **more}, 30) for more in ({}, GRAPH)]
    assert is_captured(arms[1][0])
    assert_equal(*arms)


def test_batches_without_a_usual_shape_stay_eager() -> None:
    class Lengths(DataLoader[Any]):
        def __iter__(self) -> Any:
            for size in (64, 40, 50, 30, 20, 60, 10, 44):
                yield [torch.randn(size, 32), torch.randint(0, 8, (size,))]

    pipeline = make_pipeline()
    pipeline.loader = Lengths(TensorDataset(torch.zeros(1)))
    run, _, _ = train(pipeline, {**FUSED, **GRAPH}, 20)
    assert "the shapes of the batches move" in reason(run)


def test_a_capture_that_fails_is_dropped_and_the_next_run_can_capture() -> None:
    class Touchy(nn.Linear):
        def forward(self, inputs: Tensor) -> Tensor:
            output = F.dropout(super().forward(inputs), 0.2)
            if torch.cuda.is_current_stream_capturing():
                output.sum().item()
            return output

    arms = [train(make_pipeline(lambda: Touchy(32, 8)), {**FUSED, **g}, 20) for g in ({}, GRAPH)]
    assert "operation not permitted when stream is capturing" in reason(arms[1][0])
    assert_equal(*arms)
    assert is_captured(train(make_pipeline(), {**FUSED, **GRAPH})[0])


def at(step: int, change: Callable[[Run], None]) -> Between:
    return lambda number, run: change(run) if number == step else None


def set_weight_decay(run: Run) -> None:
    run.optimizer.param_groups[0]["weight_decay"] = 0.5


def set_rate(run: Run) -> None:
    run.optimizer.param_groups[0]["lr"] = 2.0**-6


def freeze(run: Run) -> None:
    next(run.model.parameters()).requires_grad_(False)


def move_weights(run: Run) -> None:
    for parameter in run.model.parameters():
        parameter.data = parameter.data.clone()


def clear_state(run: Run) -> None:
    run.optimizer.state.clear()


def replace_state(run: Run) -> None:
    for held in run.optimizer.state.values():
        held["exp_avg"] = torch.zeros_like(held["exp_avg"])


def replace_buffers(run: Run) -> None:
    for module in run.model.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.running_mean = torch.ones(64, device=CUDA)


def set_clip_norm(run: Run) -> None:
    run.pipeline.clip_norm = 0.01


def halve_loss(run: Run) -> None:
    run.pipeline.forward = lambda model, batch: cross_entropy(model, batch) * 0.5


def empty_gradients(run: Run) -> None:
    run.optimizer.zero_grad()


def add_group(run: Run) -> None:
    run.optimizer.add_param_group({"params": [nn.Parameter(torch.ones(3, device=CUDA))]})


def assign_weights(run: Run) -> None:
    """As torch has it: the optimizer is then given the new ones."""
    kept = {key: value.clone() for key, value in run.model.state_dict().items()}
    run.model.load_state_dict(kept, assign=True)
    run.optimizer.state.clear()
    run.optimizer.param_groups[0]["params"][:] = run.model.parameters()


GIVEN_UP = {set_weight_decay: "weight_decay", add_group: "params", assign_weights: "params"}


@pytest.mark.parametrize(
    "change",
    [
        set_rate,
        freeze,
        move_weights,
        clear_state,
        replace_state,
        replace_buffers,
        set_clip_norm,
        halve_loss,
        empty_gradients,
        *GIVEN_UP,
    ],
)
def test_what_the_loop_changes_midway_takes_effect(change: Callable[[Run], None]) -> None:
    between = at(20, change)
    arms = [train(make_pipeline(), {**FUSED, **more}, between=between) for more in ({}, GRAPH)]
    assert_equal(*arms)
    if change in GIVEN_UP:
        assert f"the optimizer's {GIVEN_UP[change]} moved" in reason(arms[1][0])
    else:
        assert is_captured(arms[1][0])


def test_gradients_are_there_again_after_the_loop_emptied_them() -> None:
    gradients = []
    for more in ({}, GRAPH):
        run, _, _ = train(
            make_pipeline(drop_last=True), {**FUSED, **more}, between=at(59, empty_gradients)
        )
        gradients.append([parameter.grad for parameter in run.model.parameters()])
    for plain, captured in zip(*gradients, strict=True):
        assert plain is not None
        assert captured is not None
        assert torch.equal(plain, captured)


class PartlyFrozen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(32, 32).requires_grad_(False)
        self.work = network()

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.work(self.frozen(inputs))
        return output


def test_a_frozen_weight_that_moves_is_noticed() -> None:
    def move(run: Run) -> None:
        weight = run.model.get_parameter("frozen.weight")
        weight.data = weight.data * 0.5

    arms = [
        train(make_pipeline(PartlyFrozen), {**FUSED, **more}, between=at(20, move))
        for more in ({}, GRAPH)
    ]
    assert is_captured(arms[1][0])
    assert_equal(*arms)


def train_with_a_scale_of_the_loss(
    parts: dict[str, Any],
) -> tuple[Run, list[Tensor], list[Tensor]]:
    """The scale is trained and is no part of the model; midway it is put elsewhere."""
    scale = nn.Parameter(torch.ones(1, device=CUDA))

    def move(run: Run) -> None:
        scale.data = scale.data * 2

    pipeline = make_pipeline(
        optimizer=lambda parameters, lr: torch.optim.AdamW([*parameters, scale], lr=lr),
        forward=lambda model, batch: cross_entropy(model, batch) * scale.mean(),
    )
    run, losses, state = train(pipeline, parts, between=at(20, move))
    return run, losses, [*state, scale.detach().cpu()]


def test_parameters_outside_of_the_model_are_watched_too() -> None:
    arms = [train_with_a_scale_of_the_loss({**FUSED, **more}) for more in ({}, GRAPH)]
    assert is_captured(arms[1][0])
    assert_equal(*arms)


def test_a_usual_shape_that_changes_is_captured_anew() -> None:
    class Halving(DataLoader[Any]):
        def __iter__(self) -> Any:
            draws = torch.Generator().manual_seed(5)
            for number in range(70):
                rows = 64 if number < 20 else 32
                yield [
                    torch.randn(rows, 32, generator=draws),
                    torch.randint(0, 8, (rows,), generator=draws),
                ]

    arms = []
    for more in ({}, GRAPH):
        pipeline = make_pipeline()
        pipeline.loader = Halving(TensorDataset(torch.zeros(1)))
        arms.append(train(pipeline, {**FUSED, **more}, 70))
    assert_equal(*arms)
    captured = arms[1][0]
    assert is_captured(captured)
    replay = captured.pipeline.replay
    assert replay is not None
    assert replay([torch.randn(32, 32), torch.randint(0, 8, (32,))]) is not None
    assert replay([torch.randn(64, 32), torch.randint(0, 8, (64,))]) is None


def test_batches_with_arrays_are_refused_with_the_reason() -> None:
    class Arrays(DataLoader[Any]):
        def __iter__(self) -> Any:
            for _ in range(10):
                yield [torch.randn(64, 32), torch.randint(0, 8, (64,)), np.zeros(64)]

    pipeline = make_pipeline()
    pipeline.loader = Arrays(TensorDataset(torch.zeros(1)))
    run, _, _ = train(pipeline, {**FUSED, **GRAPH}, 10)
    assert "batches hold objects of numpy.ndarray, which a graph cannot take" in reason(run)


def test_a_capture_that_fails_in_the_update_is_dropped_too() -> None:
    class Touchy(torch.optim.AdamW):
        def step(self, closure: Any = None) -> Any:
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError("not while capturing")
            return super().step(closure)

    run, losses, _ = train(make_pipeline(optimizer=Touchy), GRAPH, 20)
    assert "RuntimeError: not while capturing" in reason(run)
    assert len(losses) == 20
    assert all(bool(each.isfinite()) for each in losses)


def test_a_state_that_cannot_be_made_is_the_loops_own_error_and_training_goes_on() -> None:
    def forward(model: nn.Module, batch: Any, state: Tensor) -> tuple[Tensor, Tensor]:
        output, state = model(batch[0], state)
        return F.cross_entropy(output, batch[1]), state

    def fail() -> Tensor:
        raise ValueError("no state")

    pipeline = make_pipeline(Carrying, forward=forward, drop_last=True)
    pipeline.initial_state = lambda: torch.zeros(1, 64, 16)
    run, _, _ = train(pipeline, {**FUSED, **GRAPH}, 20)
    assert is_captured(run)
    batch = [torch.randn(64, 32), torch.randint(0, 8, (64,))]
    before = [each.detach().clone() for each in run.model.parameters()]
    pipeline.carried_state, pipeline.initial_state = None, fail
    with pytest.raises(ValueError, match="no state"):
        run.step(batch)
    for parameter, value in zip(run.model.parameters(), before, strict=True):
        assert torch.equal(parameter, value)
    pipeline.initial_state = lambda: torch.zeros(1, 64, 16)
    assert float(run.step(batch)) > 0


def test_memory_does_not_grow_over_replays() -> None:
    pipeline = make_pipeline(drop_last=True)
    used = []

    def note(number: int, run: Run) -> None:
        if number in (50, 150, 250):
            torch.cuda.synchronize()
            used.append(torch.cuda.memory_allocated())

    run = Run(pipeline, Plan(parts={**FUSED, "resident_data": {}, **GRAPH}))
    for number, batch in zip(range(300), run.endless(), strict=False):
        note(number, run)
        run.step(batch)
    assert all(after <= before for before, after in pairwise(used))


def test_readings_arrive_late_and_are_right() -> None:
    pipeline = make_pipeline()
    run = Run(pipeline, Plan(parts={**FUSED, **GRAPH, "late_readings": {"every": 2}}))
    losses = []
    for _, batch in zip(range(30), run.endless(), strict=False):
        losses.append(run.step(batch))
        assert run.readings is not None
        reading = run.readings.latest()
        assert reading is None or reading.step <= len(losses)
    last = run.readings.wait()
    assert last is not None
    assert (last.step, last.loss) == (30, float(losses[29]))
    assert last.gradient_norm is not None
    assert last.gradient_norm > 0
