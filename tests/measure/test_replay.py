"""Blocks without a loader and without an update: what they leave alone. No time decides here."""

import itertools
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from hasten.errors import HastenError
from hasten.measure import compare, replay
from hasten.measure.blocks import prefetched
from hasten.measure.replay import interleave, keep_batches, replay_block, rounds_for
from hasten.records.plan import NAIVE, Plan
from hasten.runtime.run import Run
from hasten.stats.paired import MINIMUM_ROUNDS
from hasten.task.pipeline import Pipeline
from hasten.task.seed import seed_everything
from hasten.task.task import Task
from trainings import make_training

ROWS, BATCH = 22, 6
"""6, 6, 6 and 4 rows."""


def _run(*, workers: int = 0, plan: Plan = NAIVE, rows: int = ROWS) -> Run:
    seed_everything(0)
    data = TensorDataset(torch.arange(rows).float().unsqueeze(1), torch.zeros(rows, 1))
    task = Task(
        model=nn.Sequential(nn.Linear(1, 4), nn.Dropout(0.5), nn.Linear(4, 1)),
        data=DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=workers),
        loss=nn.functional.mse_loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-6),
    )
    run = Run(Pipeline.from_task(task), plan)
    seed_everything(1)
    return run


def _rows(batch: list[Tensor]) -> list[float]:
    return batch[0].flatten().tolist()


class Noting:
    """The batches of a run, and which they were."""

    def __init__(self, run: Run) -> None:
        self._source = run.endless()
        self.seen: list[list[float]] = []

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        batch = next(self._source)
        self.seen.append(_rows(batch))
        return batch


def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "BLOCK_S", 0.0)
    monkeypatch.setattr(replay, "USUAL_S", 0.0)


@pytest.mark.parametrize(("workers", "rows"), [(0, ROWS), (2, 12 * ROWS)])
def test_real_blocks_see_every_batch_once_and_in_order(
    workers: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _quick(monkeypatch)
    run = _run(workers=workers, rows=rows)
    source = Noting(run)
    bounds = replay.measure_bounds(run, source, ahead=prefetched(run.pipeline.loader))
    assert [bound.without for bound in bounds] == ["loader", "optimizer"]
    assert all(0 < bound.low <= bound.ratio <= bound.high for bound in bounds)
    plain = _run(workers=workers, rows=rows)
    undisturbed = plain.endless()
    expected = []
    for _ in source.seen:  # dropout draws between the epochs' shuffles, as it does above
        batch = next(undisturbed)
        expected.append(_rows(batch))
        plain.step(batch)
    assert source.seen == expected
    assert len(source.seen) > max(2 * MINIMUM_ROUNDS, 2 * rows / BATCH), "over an epoch's end"


def test_kept_batches_are_those_that_were_trained_on_but_for_partial_ones() -> None:
    run = _run()
    source = Noting(run)
    kept = keep_batches(run, source, 8)
    assert len(source.seen) == 8
    assert [_rows(batch) for batch in kept] == [rows for rows in source.seen if len(rows) == BATCH]
    assert len(kept) == 6


def test_batches_that_take_much_memory_are_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "free_bytes", lambda device: 100)
    run = _run()
    assert len(keep_batches(run, run.endless(), 8)) == 1


def test_as_many_are_kept_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    batch_bytes = BATCH * 2 * 4
    monkeypatch.setattr(replay, "free_bytes", lambda device: 30 * batch_bytes)
    run = _run()
    assert len(keep_batches(run, run.endless(), 50)) == 3


def test_a_replay_steps_on_the_kept_batches_in_turn_and_asks_no_loader() -> None:
    run = _run()
    kept = keep_batches(run, run.endless(), 2)
    stepped: list[list[float]] = []
    step = run.eager.transfer
    vars(run.eager)["transfer"] = lambda batch: (stepped.append(_rows(batch)), step(batch))[1]
    run.pipeline.loader = ()
    _, rows = replay_block(run, itertools.cycle(kept), 5)
    first, second = (_rows(batch) for batch in kept)
    assert stepped == [first, second, first, second, first, second]
    assert rows == 5 * BATCH, "the first step is not measured"


def test_a_replay_leaves_random_generators_and_carried_state_where_they_were() -> None:
    run = Run(make_training("recurrent"))
    run.pipeline.state_resets = "epoch"
    run.pipeline.initial_state = lambda: (torch.zeros(2, 6, 8), torch.zeros(2, 6, 8))
    source = run.endless()
    kept = keep_batches(run, source, 2)
    carried, before = run.pipeline.carried_state, torch.get_rng_state()
    assert carried is not None
    replay_block(run, itertools.cycle(kept), 3)
    assert run.pipeline.carried_state is carried
    assert torch.equal(torch.get_rng_state(), before)


def test_loader_workers_do_not_run_while_kept_batches_are_replayed() -> None:
    run = _run(workers=2)
    source = run.endless()
    kept = keep_batches(run, source, 1)
    children = psutil.Process().children(recursive=True)
    assert len(children) >= 2
    seen: list[set[str]] = []

    def statuses() -> set[str]:
        return {child.status() for child in children if child.is_running()}

    def looking(model: nn.Module, batch: Any) -> Tensor:
        deadline = time.monotonic() + 10  # a signal takes effect when its process is scheduled
        while statuses() != {psutil.STATUS_STOPPED} and time.monotonic() < deadline:
            time.sleep(0.01)
        seen.append(statuses())
        return model(batch[0]).sum()

    run.pipeline.forward = looking
    replay_block(run, itertools.cycle(kept), 2)
    assert seen == [{psutil.STATUS_STOPPED}] * 3
    assert psutil.STATUS_STOPPED not in statuses()


def test_they_run_again_after_a_replay_that_raised() -> None:
    run = _run(workers=2)
    source = run.endless()
    kept = keep_batches(run, source, 1)

    def raising(model: nn.Module, batch: Any) -> Tensor:
        raise ValueError("its own")

    forward, run.pipeline.forward = run.pipeline.forward, raising
    with pytest.raises(ValueError, match="own"):
        replay_block(run, itertools.cycle(kept), 2)
    run.pipeline.forward = forward
    for _ in range(6):
        run.step(next(source))


def test_a_block_without_updates_moves_no_weight_and_the_next_one_does() -> None:
    run = _run()
    source = run.endless()
    before = [each.detach().clone() for each in run.model.parameters()]
    replay._block_without_update(run, source, 3, unmeasured=1)
    assert all(map(torch.equal, run.model.parameters(), before))
    assert run.model[0].weight.grad is not None
    run.step(next(source))
    assert not all(map(torch.equal, run.model.parameters(), before))


def test_a_captured_step_has_no_block_without_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    _quick(monkeypatch)
    run = _run()
    run.pipeline.replay = run.eager  # what a graph puts there
    bounds = replay.measure_bounds(run, run.endless(), ahead=0)
    assert [bound.without for bound in bounds] == ["loader"]


def test_every_way_is_taken_once_a_round_in_an_order_that_changes() -> None:
    taken: list[str] = []

    def way(name: str, seconds: float) -> replay.Block:
        def block() -> float:
            taken.append(name)
            return seconds

        return block

    times = interleave({"a": way("a", 1.0), "b": way("b", 2.0), "c": way("c", 3.0)}, 30)
    assert times == {"a": [1.0] * 30, "b": [2.0] * 30, "c": [3.0] * 30}
    rounds = {tuple(taken[at : at + 3]) for at in range(0, 90, 3)}
    assert all(sorted(each) == ["a", "b", "c"] for each in rounds)
    assert len(rounds) == 6


class Clock:
    """Ten seconds pass at each block."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def block(self) -> float:
        self.now += 10.0
        return 10.0


@pytest.mark.parametrize(
    ("limit_s", "rounds"), [(35.0, MINIMUM_ROUNDS), (20.0 * MINIMUM_ROUNDS + 35, None), (1e9, 50)]
)
def test_rounds_end_with_the_time_once_there_are_enough_of_them(
    limit_s: float, rounds: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(replay, "time", clock)
    times = interleave({"a": clock.block, "b": clock.block}, 50, limit_s=limit_s)
    assert len(times["a"]) == len(times["b"]) == (rounds or MINIMUM_ROUNDS + 2)


def test_what_is_measured_without_things_has_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that were fast when they were probed, and are slow after that."""
    monkeypatch.setattr(replay, "rounds_for", lambda step_s, steps, unmeasured: 50)
    monkeypatch.setattr(replay, "LIMIT_S", 0.0)
    run = _run()
    bounds = replay.measure_bounds(run, run.endless(), ahead=0)
    assert {bound.how.rpartition(", in ")[2] for bound in bounds} == {
        f"{MINIMUM_ROUNDS} interleaved rounds"
    }


def test_slow_steps_get_the_fewest_rounds_and_the_slowest_none() -> None:
    assert rounds_for(0.001, 60, unmeasured=1) == 54
    assert rounds_for(0.2, 1, unmeasured=1) == MINIMUM_ROUNDS
    with pytest.raises(HastenError, match=r"Steps of 1\.0 s .* 120 s"):
        rounds_for(1.0, 1, unmeasured=1)
