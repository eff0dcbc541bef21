"""What only a CUDA device can show. Run by `make gpu-test`."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from hasten.data.loaders.batched import BatchedLoader
from hasten.measure.marks import marks_for
from hasten.measure.phases import marking, measure_phases
from hasten.records.plan import NAIVE, Plan
from hasten.runtime.run import Run
from hasten.step.watch import noting_syncs
from hasten.task.pipeline import Pipeline
from hasten.task.seed import seed_everything
from hasten.task.task import Task

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
ALL = Plan(parts={"batched_loader": {}, "fused_optimizer": {}, "compile": {}})
PLANTED = Path(__file__).parents[1] / "tasks" / "planted.py"


def _task() -> Task:
    seed_everything(5)
    rows = torch.randn(1000, 64), torch.randint(0, 8, (1000,))
    return Task(
        model=nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 8)),
        data=DataLoader(TensorDataset(*rows), batch_size=64, shuffle=True, pin_memory=True),
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        clip_norm=1.0,
    )


def _weights(run: Run) -> list[torch.Tensor]:
    return [parameter.detach().cpu().clone() for parameter in run.model.parameters()]


def _train(run: Run, steps: int) -> list[torch.Tensor]:
    source = run.endless()
    return [run.step(next(source)) for _ in range(steps)]


def test_the_empty_plan_equals_a_raw_loop_bitwise() -> None:
    task = _task()
    run = Run(Pipeline.from_task(task))
    losses = _train(run, 200)

    task = _task()
    model = task.model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    raw = []
    while len(raw) < 200:
        for inputs, targets in task.data:  # type: ignore[union-attr]
            if len(raw) == 200:
                break
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs.cuda()), targets.cuda())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            raw.append(loss.detach())
    assert torch.equal(torch.stack(losses), torch.stack(raw))
    for one, other in zip(_weights(run), model.parameters(), strict=True):
        assert torch.equal(one, other.detach().cpu())


def test_the_loss_of_a_step_stays_on_the_device() -> None:
    (loss,) = _train(Run(Pipeline.from_task(_task())), 1)
    assert loss.device.type == "cuda"


def test_batched_batches_are_pinned_and_equal() -> None:
    loader = _task().data
    assert isinstance(loader, DataLoader)
    torch.manual_seed(1)
    plain = [copy.deepcopy(batch) for batch in loader]
    torch.manual_seed(1)
    batched = list(BatchedLoader(loader))
    for one, other in zip(plain, batched, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
        assert all(tensor.is_pinned() for tensor in other)


def test_fusing_and_undoing_moves_the_step_counters_with_it() -> None:
    run = Run(Pipeline.from_task(_task()))
    _train(run, 3)
    fused = Run(run.pipeline, Plan(parts={"fused_optimizer": {}}))
    _train(fused, 2)
    states = fused.optimizer.state.values()
    assert {state["step"].device.type for state in states} == {"cuda"}
    fused.undo()
    assert {state["step"].device.type for state in states} == {"cpu"}
    assert {float(state["step"]) for state in states} == {5.0}
    _train(run, 1)


def test_all_techniques_together_are_really_applied() -> None:
    run = Run(Pipeline.from_task(_task()), ALL)
    losses = _train(run, 40)
    assert {each.technique: each.outcome for each in run.applied} == {
        "batched_loader": "done",
        "compile": "done",
        "fused_optimizer": "done",
    }
    assert bool(torch.isfinite(torch.stack(losses)).all())


def test_an_undone_run_is_the_plain_loop_again() -> None:
    run = Run(Pipeline.from_task(_task()), ALL)
    run.undo()
    plain = Run(Pipeline.from_task(_task()), NAIVE)
    seed_everything(7)
    one = _train(run, 20)
    seed_everything(7)
    other = _train(plain, 20)
    assert torch.equal(torch.stack(one), torch.stack(other))


def test_a_recipe_is_proven_by_the_command(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "hasten", "tune", f"{PLANTED}:slow_loader", "--out", "out"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "PROVEN" in ended.stdout
    assert (tmp_path / "out/recipe.toml").exists()


def test_phases_by_events_train_as_plain_steps_do() -> None:
    phased, plain = Run(Pipeline.from_task(_task())), Run(Pipeline.from_task(_task()))
    seed_everything(7)
    measurement = measure_phases(phased, phased.endless(), steps=40)
    seed_everything(7)
    losses = _train(plain, 40 + 6)[6:]
    assert list(measurement.losses) == [float(loss) for loss in losses]
    for one, other in zip(_weights(phased), _weights(plain), strict=True):
        assert torch.equal(one, other)
    assert all(step.forward_s > 0 and step.backward_s > 0 for step in measurement.steps)
    assert all(step.graph_s == 0 for step in measurement.steps)


def test_marks_do_not_make_the_host_wait() -> None:
    run = Run(Pipeline.from_task(_task()))
    source = run.endless()
    _train(run, 3)
    marks = marks_for(run.pipeline.device, expected=8)
    batch = [each.cuda() for each in next(source)]
    torch.cuda.synchronize()
    with noting_syncs() as found, marking(run, lambda phase: marks.mark()):
        run.step(batch)
    assert found == []
    assert all(span >= 0 for span in marks.spans())


def test_a_replayed_step_is_one_phase() -> None:
    run = Run(Pipeline.from_task(_task()), Plan(parts={"whole_step_graph": {}}))
    measurement = measure_phases(run, run.endless(), steps=10)
    assert sum(step.graph_s > 0 for step in measurement.steps) >= 8  # but an epoch's partial batch
