"""The parts of a profile that only a CUDA device can show. Run by `make gpu-test`."""

import pytest
import torch
from torch import Tensor, nn

from hasten.measure.ceilings import measure_ceilings
from hasten.measure.launches import count_launches
from hasten.measure.replay import keep_batches, measure_bounds
from hasten.measure.work import count_work
from hasten.records.plan import NAIVE, Plan
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.seed import seed_everything
from hasten.task.task import Task

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
ROWS, LENGTH, WIDTH, HIDDEN = 32, 20, 8, 64


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(WIDTH, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.lstm(inputs)[0][:, -1])


def _run(plan: Plan = NAIVE, *, recurrent: bool = False) -> Run:
    seed_everything(0)
    model = Recurrent() if recurrent else nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.Linear(64, 1))
    shape = (8 * ROWS, LENGTH, WIDTH) if recurrent else (8 * ROWS, WIDTH)
    task = Task(
        model=model,
        data=(torch.randn(shape), torch.zeros(8 * ROWS, 1)),
        loss=nn.functional.mse_loss,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        batch_size=ROWS,
    )
    return Run(Pipeline.from_task(task), plan)


def test_kernels_are_counted_and_keep_the_device_busy_for_a_part_of_the_step() -> None:
    run = _run()
    found = count_launches(run, run.endless())
    assert found.per_step >= 10
    assert 0 < found.device_s < found.step_s
    assert sum(found.slowest.values()) <= found.step_s
    assert not any("hasten" in name for name in found.slowest), "a range of ours is no kernel"


def test_a_recurrent_layer_of_cudnn_is_counted() -> None:
    run = _run(recurrent=True)
    counted = count_work(run, run.endless())
    lstm = 2 * ROWS * LENGTH * 4 * HIDDEN * (WIDTH + HIDDEN)
    head = 2 * ROWS * HIDDEN
    assert sum(counted.flops.values()) == 3 * lstm + 3 * head
    assert counted.moved_bytes > 0


def test_ceilings_of_every_type_are_measured_and_settings_put_back() -> None:
    before = torch.backends.cuda.matmul.fp32_precision
    found = measure_ceilings(torch.device("cuda"))
    assert {"fp32", "fp16", "fp64"} <= set(found.flops_per_s)
    assert torch.backends.cuda.matmul.fp32_precision == before
    assert found.bytes_per_s > 0
    assert found.launch_s > 0


def test_kept_batches_are_on_the_device() -> None:
    run = _run()
    for batch in keep_batches(run, run.endless(), 4):
        assert {tensor.device.type for tensor in batch} == {"cuda"}


@pytest.mark.parametrize(
    ("plan", "without"),
    [
        (NAIVE, {"loader", "optimizer"}),
        (Plan(parts={"resident_data": {}, "whole_step_graph": {}}), {"loader"}),
    ],
)
def test_bounds_are_measured_under_plans(plan: Plan, without: set[str]) -> None:
    run = _run(plan)
    source = run.endless()
    for _ in range(8):
        run.step(next(source))
    assert not run.is_warming
    bounds = measure_bounds(run, source, ahead=0)
    assert {bound.without for bound in bounds} == without
    assert all(each.outcome == "done" for each in run.applied), "the replay has moved nothing"
