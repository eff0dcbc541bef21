"""The trace itself, in this process: what it sees and what it leaves alone."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from hasten.measure import messages, numerics
from hasten.measure.cutting import Step
from hasten.measure.digests import digest_state
from hasten.measure.numerics import Ran
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.runtime.run import Run
from hasten.stats.yardstick import Norms, excess
from hasten.task.digest import digest
from hasten.task.pipeline import Pipeline
from hasten.task.seed import seed_everything
from hasten.task.task import Task
from hasten.tune.checks import check_rounding


def _run(plan: Plan = NAIVE, dtype: torch.dtype = torch.float32, **options: object) -> Run:
    seed_everything(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    task = Task(
        model=model.to(dtype),
        data=(torch.randn(64, 8, dtype=dtype), torch.randint(0, 3, (64,))),
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        batch_size=16,
        **options,  # type: ignore[arg-type]
    )
    return Run(Pipeline.from_task(task), plan)


def _trace(
    run: Run, path: Path, role: str, reduction: str = "mean", rung: Rung = Rung.ROUNDING
) -> messages.Reply:
    request = messages.Trace(
        path=str(path),
        role=role,  # type: ignore[arg-type]
        rung=rung,
        reduction=reduction,  # type: ignore[arg-type]
    )
    return numerics.trace(run, request)


def test_the_naive_run_against_itself_is_bitwise_equal(tmp_path: Path) -> None:
    baseline = _trace(_run(), tmp_path / "t", "baseline")
    candidate = _trace(_run(), tmp_path / "t", "candidate")
    assert isinstance(baseline, messages.BaselineTraced)
    assert isinstance(candidate, messages.CandidateTraced)
    assert baseline.repeats
    assert candidate.first_unequal == ""
    assert candidate.end == baseline.end
    assert candidate.losses == baseline.losses
    assert all(value == 0 for q in candidate.quantities.values() for value in q.norms.values())


class Named(torch.Tensor):
    """As users have, to carry a word beside the numbers."""


def test_buffers_of_a_class_of_the_users_own_are_compared_as_any(tmp_path: Path) -> None:
    def make() -> Run:
        run = _run()
        run.model.register_buffer("named", torch.ones(3).as_subclass(Named))
        return run

    _trace(make(), tmp_path / "t", "baseline")
    candidate = _trace(make(), tmp_path / "t", "candidate")
    assert isinstance(candidate, messages.CandidateTraced)
    assert candidate.first_unequal == ""
    assert candidate.quantities["buffers 1"].norms["named"] == 0


def test_what_is_to_be_equal_to_the_bit_is_run_twice_and_no_oftener(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, really = [], numerics._run_steps

    def counted(run: Run, *rest: Any, **more: Any) -> Ran:
        runs.append(run)
        return really(run, *rest, **more)

    monkeypatch.setattr(numerics, "_run_steps", counted)
    baseline = _trace(_run(), tmp_path / "t", "baseline", rung=Rung.BITWISE)
    assert len(runs) == 2
    assert isinstance(baseline, messages.BaselineTraced)
    assert baseline.repeats
    wrong = _run()
    _turn_updates(wrong, "3.bias")
    for run, unequal in ((_run(), ""), (wrong, "losses")):
        candidate = _trace(run, tmp_path / "t", "candidate", rung=Rung.BITWISE)
        assert isinstance(candidate, messages.CandidateTraced)
        assert candidate.first_unequal == unequal


def test_steps_with_two_ragged_micro_batches_take_turns_over_an_epochs_end(tmp_path: Path) -> None:
    baseline = _trace(_run(), tmp_path / "t", "baseline")
    assert isinstance(baseline, messages.BaselineTraced)
    assert baseline.steps == (1, 2, 1, 1, 1, 2, 1)
    assert baseline.epoch == 4


@pytest.mark.parametrize(
    ("parameter", "is_the_same"),
    [("0.bias", True), ("3.bias", False)],  # one before BatchNorm, whose gradient is mere rounding
)
def test_a_weight_without_a_gradient_but_rounding_may_go_either_way(
    parameter: str, is_the_same: bool, tmp_path: Path
) -> None:
    baseline = _trace(_run(), tmp_path / "t", "baseline")
    turned = _run()
    _turn_updates(turned, parameter)
    candidate = _trace(turned, tmp_path / "t", "candidate")
    assert isinstance(baseline, messages.BaselineTraced)
    assert isinstance(candidate, messages.CandidateTraced)
    assert candidate.quantities["buffers 4"].norms["1.running_mean"] > 1e-4 or not is_the_same
    shares = {
        key: excess(
            Norms(
                size=base.size,
                sensitivity=base.sensitivity,
                difference=candidate.quantities[key].norms,
                resolution=base.resolution,
                epsilon=baseline.epsilon,
            )
        ).share
        for key, base in baseline.quantities.items()
    }
    assert (max(shares.values()) <= 1.0) is is_the_same, shares


@pytest.mark.parametrize("parameter", ["0.weight", "16.weight", "33.weight"])
def test_half_an_update_of_one_layer_of_a_deep_network_is_another_training(
    parameter: str, tmp_path: Path
) -> None:
    """Rounding grows from layer to layer there, and many numbers have no sure sign."""
    baseline = _trace(_deep_run(), tmp_path / "t", "baseline")
    assert isinstance(baseline, messages.BaselineTraced)
    for factor, is_the_same in ((1.0, True), (0.5, False)):
        run = _deep_run(Plan(parts={"memory_format": {}}))
        _scale_updates(run, parameter, factor)
        candidate = _trace(run, tmp_path / "t", "candidate")
        assert isinstance(candidate, messages.CandidateTraced)
        check = check_rounding(baseline, candidate, draws=False)
        assert (check.verdict == "proven") is is_the_same, check


def _deep_run(plan: Plan = NAIVE) -> Run:
    seed_everything(3)
    layers: list[nn.Module] = []
    for channels in (3, *(16,) * 12):
        layers += [nn.Conv2d(channels, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()]
    task = Task(
        model=nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4)),
        data=(torch.randn(128, 3, 16, 16), torch.randint(0, 4, (128,))),
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        batch_size=32,
    )
    return Run(Pipeline.from_task(task), plan)


def _scale_updates(run: Run, name: str, factor: float) -> None:
    parameter = run.model.get_parameter(name)
    before = parameter.detach().clone()

    @torch.no_grad()
    def scale(*_: object) -> None:
        if factor != 1:
            parameter.copy_(before + factor * (parameter - before))
        before.copy_(parameter)

    run.optimizer.register_step_post_hook(scale)


def _turn_updates(run: Run, name: str) -> None:
    parameter = run.model.get_parameter(name)
    before = parameter.detach().clone()

    @torch.no_grad()
    def turn(*_: object) -> None:
        parameter.copy_(2 * before - parameter)
        before.copy_(parameter)

    run.optimizer.register_step_post_hook(turn)


def test_a_coupled_loss_is_never_split(tmp_path: Path) -> None:
    baseline = _trace(_run(), tmp_path / "t", "baseline", reduction="coupled")
    assert isinstance(baseline, messages.BaselineTraced)
    assert set(baseline.steps) == {1}


def test_the_fp64_error_is_that_of_fp32(tmp_path: Path) -> None:
    baseline = _trace(_run(), tmp_path / "t", "baseline")
    assert isinstance(baseline, messages.BaselineTraced)
    found = baseline.quantities["gradients 1"]
    assert set(found.fp64_error) == set(found.size)
    size = sum(found.size.values())
    assert all(1e-10 < error / size < 1e-6 for error in found.fp64_error.values())


def _fp64_error_of(model: nn.Module, folder: Path) -> dict[str, float]:
    seed_everything(0)
    task = Task(
        model=model,
        data=(torch.randn(64, 8), torch.randint(0, 3, (64,))),
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-2),
        batch_size=16,
    )
    baseline = _trace(Run(Pipeline.from_task(task)), folder / "t", "baseline")
    assert isinstance(baseline, messages.BaselineTraced)
    return baseline.quantities["gradients 1"].fp64_error


def test_a_model_that_refuses_fp64_reports_no_fp64_error(tmp_path: Path) -> None:
    class OnlyFloat(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
            if input.dtype != torch.float32:
                raise TypeError("float32 only")
            return super().forward(input)

    assert _fp64_error_of(OnlyFloat(8, 3), tmp_path) == {}


def test_a_model_that_draws_random_numbers_reports_no_fp64_error(tmp_path: Path) -> None:
    class Noisy(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
            return super().forward(input + 0.1 * torch.randn_like(input))

    assert _fp64_error_of(Noisy(8, 3), tmp_path) == {}, "it would be of other numbers"


def test_a_baseline_that_does_not_repeat_itself_is_noticed(tmp_path: Path) -> None:
    calls = iter(range(1000))

    def unsteady(model: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
        return nn.functional.cross_entropy(model(batch[0]), batch[1]) * (1 + 1e-4 * next(calls))

    run = _run()
    run.pipeline.forward = unsteady
    baseline = _trace(run, tmp_path / "t", "baseline")
    assert isinstance(baseline, messages.BaselineTraced)
    assert not baseline.repeats


def test_switching_dropout_off_reaches_every_kind() -> None:
    model = nn.ModuleList([nn.Dropout(0.5), nn.LSTM(4, 4, 2, dropout=0.3), nn.Dropout2d(0.2)])
    model.append(nn.MultiheadAttention(4, 2, dropout=0.4))
    numerics.switch_dropout_off(model)
    assert [model[0].p, model[1].dropout, model[2].p, model[3].dropout] == [0, 0, 0, 0]


@pytest.mark.parametrize("bit", range(32))
def test_the_digest_of_the_state_notices_any_flipped_bit(bit: int) -> None:
    run = _run()
    before = digest_state(run.pipeline)
    weights = next(run.model.parameters()).detach().view(torch.int32)
    weights.view(-1)[5] ^= -(2**31) if bit == 31 else 1 << bit
    after = digest_state(run.pipeline)
    assert {key for key in before if before[key] != after[key]} == {"0.weight"}


def test_the_digest_of_the_state_ignores_which_kernel_will_update_it() -> None:
    plain = digest_state(_run().pipeline)
    assert digest_state(_run(Plan(parts={"fused_optimizer": {}})).pipeline) == plain


def test_a_digest_tells_shape_dtype_and_structure_apart() -> None:
    values = [
        torch.zeros(4),
        torch.zeros(2, 2),
        torch.zeros(4, dtype=torch.int32),
        [torch.zeros(4)],
        (torch.zeros(4),),
        {"a": torch.zeros(4)},
        torch.zeros(0),
    ]
    assert len({digest(value) for value in values}) == len(values)


def test_bfloat16_has_a_digest_too() -> None:
    assert digest(torch.ones(3, dtype=torch.bfloat16)) != digest(torch.ones(3))


@pytest.mark.parametrize("role", ["baseline", "candidate"])
def test_a_trace_leaves_no_gradient_hooks_behind(role: str, tmp_path: Path) -> None:
    _trace(_run(), tmp_path / "t", "baseline")
    run = _run()
    _trace(run, tmp_path / "t", role)
    assert not any(parameter._backward_hooks for parameter in run.model.parameters())


@pytest.mark.parametrize("failing", [0, 5])  # the first run, and the one in fp64
def test_a_device_without_room_for_a_trace_keeps_it_on_the_host(
    failing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _trace(_run(), tmp_path / "t", "baseline")
    device, really, calls = torch.device("cpu", 0), numerics._run_steps, list[torch.device]()

    def run_steps(run: Run, steps: list[Step], home: torch.device, *more: Any, **named: Any) -> Ran:
        calls.append(home)
        ran = really(run, steps, home, *more, **named)
        if len(calls) == failing + 1:
            raise torch.OutOfMemoryError
        return ran

    monkeypatch.setattr(numerics, "_home", lambda run, steps: device)
    monkeypatch.setattr(numerics, "_run_steps", run_steps)
    found = _trace(_run(), tmp_path / "t", "baseline")
    assert found == expected
    assert calls[: failing + 1] == [device] * (failing + 1)
    assert set(calls[failing + 1 :]) == {numerics.HOST}
