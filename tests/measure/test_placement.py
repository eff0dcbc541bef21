"""Both arms on the same cores, drawn anew in each round, and free again afterwards."""

import os
import random
import threading
from collections.abc import Iterator

import pytest
import torch

from hasten.measure import placement
from hasten.measure.placement import SharedCores, busiest_threads, threads_to_place

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="threads are placed by Linux only"
)


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> dict[int, set[int]]:
    """Eight cores, and where threads were put on them."""
    found: dict[int, set[int]] = {}
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    monkeypatch.setattr(os, "sched_setaffinity", found.__setitem__)
    return found


def test_both_arms_share_their_cores_within_a_round(placed: dict[int, set[int]]) -> None:
    cores = SharedCores([(11, 12), (21, 22)], random.Random(0))
    drawn = set()
    for _ in range(50):
        cores.draw()
        assert placed[11] == placed[21]
        assert placed[12] == placed[22]
        assert len(placed[11] | placed[12]) == 2
        drawn.add(min(placed[11]))
    assert drawn == set(range(8))


def test_afterwards_every_thread_may_run_anywhere(placed: dict[int, set[int]]) -> None:
    cores = SharedCores([(11, 12), (21, 22)], random.Random(0))
    cores.draw()
    cores.release()
    assert set(map(frozenset, placed.values())) == {frozenset(range(8))}


@pytest.mark.parametrize("arms", [[(), ()], [(11, 12), ()], [range(10, 19), range(20, 29)]])
def test_arms_are_left_alone_that_want_to_be_or_have_more_threads_than_there_are_cores(
    arms: list[tuple[int, ...]], placed: dict[int, set[int]]
) -> None:
    cores = SharedCores(arms, random.Random(0))
    cores.draw()
    cores.release()
    assert placed == {}


def test_of_arms_with_different_threads_as_many_are_placed_as_both_have(
    placed: dict[int, set[int]],
) -> None:
    SharedCores([(11, 12), (21, 22, 23)], random.Random(0)).draw()
    assert placed.keys() == {11, 12, 21, 22}


def test_a_thread_that_has_ended_is_passed_over() -> None:
    ended = threading.Thread(target=lambda: None)
    ended.start()
    assert ended.native_id is not None
    ended.join()
    placement._place(ended.native_id, os.sched_getaffinity(0))


@pytest.fixture
def spinning() -> Iterator[int]:
    """A thread that has run longer than all others but the main one."""
    stop, ready = threading.Event(), threading.Event()

    def spin() -> None:
        clock = 0
        while not stop.is_set():
            clock += 1
            if clock == 3_000_000:
                ready.set()

    thread = threading.Thread(target=spin)
    thread.start()
    ready.wait(60)
    assert thread.native_id is not None
    yield thread.native_id
    stop.set()
    thread.join()


def test_the_busiest_threads_are_those_that_have_run_longest(spinning: int) -> None:
    found = busiest_threads(2)
    assert len(found) == 2
    assert spinning in found


@pytest.mark.parametrize(
    ("device", "beside_workers", "most"),
    [("cpu", False, 1), ("meta", False, 2), ("cpu", True, 0), ("meta", True, 0)],
)
def test_as_many_are_placed_as_compute_or_launch_and_none_beside_loader_workers(
    device: str, beside_workers: bool, most: int, spinning: int
) -> None:
    """One computes here; and what a loader starts would inherit the core of who starts it."""
    found = threads_to_place(torch.device(device), beside_workers=beside_workers)
    assert len(found) == most
