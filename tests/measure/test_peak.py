"""Peak memory of a step: figures that can be computed by hand, and a training left as it was."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from hasten.measure.allocations import Change
from hasten.measure.digests import digest_state
from hasten.measure.lines import Note
from hasten.measure.peak import UNKNOWN, Block, measure_peak, peak_of
from hasten.records.plan import Plan, RawPart
from hasten.records.profile import PeakMemory
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.seed import seed_everything
from hasten.task.task import Task

ROWS, WIDE, FLOAT = 256, 64, 4
LAYER = ROWS * WIDE * FLOAT
"""Bytes of what one wide layer gives."""
BATCH = ROWS * 8 * FLOAT
WEIGHTS = FLOAT * (8 * WIDE + WIDE + WIDE * WIDE + WIDE + WIDE + 1)
SMALL = 64
"""A loss of this step and of the one before, and numbers that become tensors."""


class Stack(nn.Module):
    """Linear layers with ReLU between, each on a line of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, WIDE), nn.Linear(WIDE, WIDE)
        self.last = nn.Linear(WIDE, 1)

    def forward(self, rows: Tensor) -> Tensor:
        rows = torch.relu(self.first(rows))  # the first layer
        rows = torch.relu(self.second(rows))  # the second layer
        last: Tensor = self.last(rows)  # the last layer
        return last


class Recomputed(Stack):
    def forward(self, rows: Tensor) -> Tensor:
        computed: Tensor = checkpoint(super().forward, rows, use_reentrant=False)
        return computed


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, rows: Tensor) -> Tensor:
        return rows * 2

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient * 2


class WithFunction(Stack):
    def forward(self, rows: Tensor) -> Tensor:
        doubled: Tensor = Doubled.apply(super().forward(rows))
        return doubled


def mean_output(model: nn.Module, batch: list[Tensor]) -> Tensor:
    output: Tensor = model(batch[0])
    return output.mean()


def make_run(model: Callable[[], nn.Module] = Stack, rows: int = 8 * ROWS, **parts: RawPart) -> Run:
    seed_everything(3)
    task = Task(
        model=model(),
        data=(torch.randn(rows, 8),),
        forward=mean_output,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        batch_size=ROWS,
    )
    return Run(Pipeline.from_task(task), Plan(parts=parts))


def peak(model: Callable[[], nn.Module] = Stack, **parts: RawPart) -> PeakMemory:
    run = make_run(model, **parts)
    batches = run.endless()
    run.step(next(batches))
    return measure_peak(run, batches)


def line_of(comment: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"  # {comment}"))


def parts_of(memory: PeakMemory) -> list[int]:
    names = ("parameters", "gradients", "optimizer", "activations", "other")
    return [getattr(memory, f"{name}_bytes") for name in names]


def test_the_peak_is_where_it_is_reckoned_to_be() -> None:
    """As the backward pass goes through the second ReLU: what both gave is still kept, and so are
    two gradients of that size, of which one becomes the other."""
    memory = peak()
    assert memory.parameters_bytes == WEIGHTS
    assert memory.optimizer_bytes == 2 * WEIGHTS + 6 * FLOAT  # two averages, and the steps
    assert memory.gradients_bytes == FLOAT * (WIDE + 1)  # of the last layer, as yet
    assert 2 * LAYER <= memory.activations_bytes <= 2 * LAYER + SMALL
    assert 2 * LAYER + BATCH <= memory.other_bytes <= 2 * LAYER + BATCH + SMALL
    assert sum(parts_of(memory)) == memory.peak_bytes


def test_the_lines_that_hold_most_are_those_of_the_layers() -> None:
    """The backward pass allocates at the line whose gradients it computes."""
    held = {each.place.line: each for each in peak().largest if each.place is not None}
    assert held[line_of("the first layer")].held_bytes == LAYER
    assert held[line_of("the second layer")].held_bytes == 2 * LAYER
    assert held[line_of("the last layer")].held_bytes == LAYER
    first = held[line_of("the first layer")]
    assert first.code == "rows = torch.relu(self.first(rows))  # the first layer"
    assert first.place is not None
    assert first.place.path.endswith("test_peak.py")


def test_what_no_line_of_the_user_made_is_told_in_words() -> None:
    (before,) = (each for each in peak().largest if each.held_bytes == BATCH)
    assert before.place is None
    assert "the batch" in before.code


def test_activations_that_are_computed_again_are_activations() -> None:
    memory = peak(Recomputed)
    assert memory.activations_bytes >= 2 * LAYER
    assert memory.other_bytes <= 2 * LAYER + BATCH + SMALL
    lines = {each.place.line for each in memory.largest if each.place is not None}
    assert {line_of("the first layer"), line_of("the second layer")} <= lines


def test_the_small_batch_at_the_end_of_an_epoch_is_not_the_one_that_counts() -> None:
    run = make_run(rows=2 * ROWS + 1)
    batches = run.endless()
    run.step(next(batches))
    assert measure_peak(run, batches).peak_bytes == pytest.approx(peak().peak_bytes, abs=SMALL)


def test_functions_of_the_users_own_are_followed() -> None:
    assert peak(WithFunction).activations_bytes >= 2 * LAYER


def test_a_batch_in_pieces_holds_the_activations_of_one() -> None:
    memory = peak(gradient_accumulation={"steps": 4})
    assert LAYER / 4 <= memory.activations_bytes <= 2 * LAYER / 4 + SMALL
    assert memory.peak_bytes < peak().peak_bytes - 2 * LAYER


@pytest.mark.parametrize("model", [Stack, Recomputed])
def test_measuring_leaves_the_training_as_it_is_to_the_bit(model: type[nn.Module]) -> None:
    plain = make_run(model)
    batches = plain.endless()
    for _ in range(4):
        plain.step(next(batches))
    expected = digest_state(plain.pipeline)
    measured = make_run(model)
    batches = measured.endless()
    measured.step(next(batches))
    measure_peak(measured, batches)
    measured.step(next(batches))
    assert digest_state(measured.pipeline) == expected
    assert not {"forward", "transfer"} & set(vars(measured.eager))


def test_figures_do_not_depend_on_looking_for_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    noted = peak()
    monkeypatch.setattr("hasten.measure.lines.LineNotes.__enter__", lambda self: self)
    monkeypatch.setattr("hasten.measure.lines.LineNotes.__exit__", lambda *anything: None)
    silent = peak()
    assert parts_of(silent) == pytest.approx(parts_of(noted), abs=SMALL)
    assert all(each.place is None for each in silent.largest)


def change(address: int, size: int, part: str = "forward") -> Change:
    return Change(address=address, size=size, part=part, note=Note(None, recomputed=False))


def test_what_nobody_knows_counts_until_it_is_given_back() -> None:
    live = {UNKNOWN: Block(size=100), 1: Block(size=10, holder="parameters")}
    taken = [change(7, -60), change(2, 20), change(3, 5), change(3, -5), change(2, -20, "backward")]
    memory = peak_of(live, taken, {})
    assert memory.peak_bytes == 110  # before the step, since it gives back more than it takes
    live = {UNKNOWN: Block(size=40), 1: Block(size=10, holder="parameters")}
    memory = peak_of(live, taken[1:], {})
    assert parts_of(memory) == [10, 0, 0, 20, 45]


def test_a_block_where_a_gradient_lies_in_the_end_is_the_gradients() -> None:
    memory = peak_of({}, [change(2, 20, "backward")], {2: Block(size=20, holder="gradients")})
    assert parts_of(memory) == [0, 20, 0, 0, 0]
