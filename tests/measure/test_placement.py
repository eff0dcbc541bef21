"""Both arms on the same cores, drawn anew in each round, and free again afterwards."""

import os
import random
import threading
from collections.abc import Iterator

import pytest

from hasten.measure import placement
from hasten.measure.placement import BUSIEST, SharedCores, busiest_threads

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
        assert len(placed[11] | placed[12]) == BUSIEST
        drawn.add(min(placed[11]))
    assert drawn == set(range(8))


def test_afterwards_every_thread_may_run_anywhere(placed: dict[int, set[int]]) -> None:
    cores = SharedCores([(11, 12), (21, 22)], random.Random(0))
    cores.draw()
    cores.release()
    assert set(map(frozenset, placed.values())) == {frozenset(range(8))}


@pytest.mark.parametrize("arms", [[(), ()], [(11, 12), ()]])
def test_arms_that_compute_on_the_cpu_are_left_alone(
    arms: list[tuple[int, ...]], placed: dict[int, set[int]]
) -> None:
    cores = SharedCores(arms, random.Random(0))
    cores.draw()
    cores.release()
    assert placed == {}


def test_with_few_cores_nothing_is_placed(
    placed: dict[int, set[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2})
    SharedCores([(11, 12), (21, 22)], random.Random(0)).draw()
    assert placed == {}


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
    found = busiest_threads()
    assert len(found) == BUSIEST
    assert spinning in found
