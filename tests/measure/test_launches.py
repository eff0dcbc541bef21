"""What a step asks of the device, counted by torch's profiler."""

import pytest
import torch
from torch import nn

from hasten.errors import HastenError
from hasten.measure import launches
from hasten.measure.launches import count_launches, union_s
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.task import Task
from trainings import make_training


@pytest.mark.parametrize(
    ("spans", "seconds"),
    [
        ([], 0.0),
        ([(0.0, 1.0)], 1.0),
        ([(2.0, 3.0), (0.0, 1.0)], 2.0),
        ([(0.0, 2.0), (1.0, 3.0)], 3.0),
        ([(0.0, 9.0), (1.0, 2.0), (3.0, 4.0)], 9.0),
        ([(0.0, 1.0), (1.0, 2.0)], 2.0),
        ([(0.0, 1.0), (0.0, 1.0)], 1.0),
    ],
)
def test_the_union_counts_no_moment_twice(spans: list[tuple[float, float]], seconds: float) -> None:
    assert union_s(spans) == seconds


def _run(rows: int, layers: int) -> Run:
    task = Task(
        model=nn.Sequential(*[nn.Linear(4, 4) for _ in range(layers)]),
        data=(torch.randn(rows, 4), torch.randn(rows, 4)),
        loss=nn.functional.mse_loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
        batch_size=rows // 2,
    )
    return Run(Pipeline.from_task(task))


def _count(run: Run) -> float:
    return count_launches(run, run.endless(), steps=2).per_step


def test_a_model_twice_as_deep_launches_more() -> None:
    shallow, deep, deeper = (_count(_run(8, layers)) for layers in (2, 4, 6))
    assert deeper - deep == deep - shallow > 0


def test_what_the_loader_does_is_not_counted() -> None:
    assert _count(_run(8, 2)) == _count(_run(80, 2)), "its rows are collated one by one"


def test_the_device_is_not_busy_for_longer_than_the_steps_take() -> None:
    run = Run(make_training("recurrent"))
    found = count_launches(run, run.endless(), steps=2)
    assert 0 < found.device_s <= found.step_s
    assert sum(found.slowest.values()) <= found.step_s
    assert list(found.slowest.values()) == sorted(found.slowest.values(), reverse=True)
    assert len(found.slowest) == launches.SLOWEST
    assert "aten::mkldnn_rnn_layer" in found.slowest, "which calls other operations for memory"


def test_a_profiler_that_saw_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "_trace", lambda *arguments: ([], 1.0))
    with pytest.raises(HastenError, match="seen nothing"):
        _count(_run(8, 2))
