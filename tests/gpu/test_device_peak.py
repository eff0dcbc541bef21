"""The peak of a step on a CUDA device, against what the allocator itself says."""

import gc
from collections.abc import Iterator

import msgspec
import pytest
import torch
from torch import Tensor, nn

from hasten.measure.peak import measure_peak
from hasten.records.plan import Plan, RawPart
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.seed import seed_everything
from hasten.task.task import Task

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

ROWS, WIDE = 4096, 1024
LAYER = ROWS * WIDE * 4


@pytest.fixture(autouse=True)
def _no_memory_of_earlier_tests() -> Iterator[None]:
    """A run is a cycle of references, and would be taken back in the midst of a measurement."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, WIDE), nn.Linear(WIDE, WIDE)

    def forward(self, rows: Tensor) -> Tensor:
        rows = torch.relu(self.first(rows))
        return torch.relu(self.second(rows))


def make_run(**parts: RawPart) -> Run:
    seed_everything(3)
    task = Task(
        model=Stack(),
        data=(torch.randn(8 * ROWS, 64), torch.randn(8 * ROWS, WIDE)),
        loss=nn.functional.mse_loss,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        batch_size=ROWS,
    )
    return Run(Pipeline.from_task(task), Plan(parts=parts))


@pytest.mark.parametrize("parts", [{}, {"fused_optimizer": {}}, {"resident_data": {}}])
def test_the_peak_is_the_allocators(parts: dict[str, RawPart]) -> None:
    run = make_run(**parts)
    source = run.endless()
    run.step(next(source))
    memory = measure_peak(run, source)
    batch = next(source)
    torch.cuda.reset_peak_memory_stats()
    run.step(batch)
    assert memory.peak_bytes == pytest.approx(torch.cuda.max_memory_allocated(), rel=0.01)
    assert memory.activations_bytes >= 2 * LAYER
    weights = sum(each.nbytes for each in run.model.parameters())
    assert memory.parameters_bytes == pytest.approx(weights, rel=0.01)
    assert memory.optimizer_bytes == pytest.approx(2 * weights, rel=0.01)


def test_the_lines_are_those_of_the_allocators_own_history() -> None:
    """Blocks of a layer's size that the forward pass leaves alive, by the line of this file."""
    run = make_run()
    source = run.endless()
    run.step(next(source))
    memory = measure_peak(run, source)
    batch = run.transfer(next(source))
    torch.cuda.memory._record_memory_history(stacks="python")
    try:
        loss = run.forward(batch)
        snapshot = torch.cuda.memory._snapshot()
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    del loss
    lines = {
        frame["line"]
        for segment in snapshot["segments"]
        for block in segment["blocks"]
        if block["state"] == "active_allocated" and block["size"] >= LAYER
        for frame in block.get("frames", [])
        if frame["filename"] == __file__ and frame["name"] == "forward"
    }
    found = {each.place.line for each in memory.largest if each.place is not None}
    assert lines
    assert lines <= found


def test_a_captured_step_keeps_its_memory_between_steps() -> None:
    run = make_run(resident_data={}, whole_step_graph={})
    source = run.endless()
    while run.is_warming:
        run.step(next(source))
    memory = measure_peak(run, source)
    total = sum(
        getattr(memory, name)
        for name in msgspec.structs.asdict(memory)
        if name.endswith("_bytes") and name != "peak_bytes"
    )
    assert total == memory.peak_bytes
    assert memory.other_bytes > 0
