"""Interleaving, by a worker that answers at once and a clock that it moves."""

import itertools
import os
import random
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from hasten.measure import compare as comparing
from hasten.measure import gauge as gauging
from hasten.measure import messages
from hasten.measure.compare import Arm, compare, is_hopeless
from hasten.stats.paired import Interval


class FakeClock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class FakeWorker:
    """Steps take what ``step_s`` says; only a worker that is not paused may be asked."""

    def __init__(self, clock: FakeClock, step_s: Callable[[], float]) -> None:
        self._clock = clock
        self._step_s = step_s
        self.asked: list[float] = []
        self.pauses = 0
        self.pid = os.getpid()
        self.steps: set[int] = set()

    def ask(self, request: messages.Request, reply: type, limit_s: float) -> messages.Block:
        assert isinstance(request, messages.TimeBlock)
        elapsed = request.steps * self._step_s()
        self.asked.append(self._clock.now)
        self.steps.add(request.steps)
        self._clock.now += elapsed
        return messages.Block(elapsed_s=elapsed, rows=10 * request.steps)

    def pause(self) -> None:
        self.pauses += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    monkeypatch.setattr(comparing, "time", clock)
    return clock


def _arm(
    clock: FakeClock, step_s: Callable[[], float], ahead: int = 0, has_workers: bool = False
) -> tuple[Arm, FakeWorker]:
    worker = FakeWorker(clock, step_s)
    warmed = messages.Warmed(
        elapsed_s=2.0,
        step_s=step_s(),
        applied=(),
        threads=(),
        ahead=ahead,
        has_workers=has_workers,
    )
    return Arm(worker, warmed), worker  # type: ignore[arg-type]


def test_an_arm_twice_as_fast_is_found_at_the_first_look(clock: FakeClock) -> None:
    a, _ = _arm(clock, lambda: 0.010)
    b, _ = _arm(clock, lambda: 0.005)
    found = compare(a, b, seed=0)
    assert found.decision == "faster"
    assert found.ratio == pytest.approx(2.0)
    assert found.elapsed_s == pytest.approx(comparing.LOOKS_S[0], abs=0.2)


@pytest.mark.parametrize("has_workers", [False, True])
def test_what_few_rounds_pay_counts_where_a_loader_has_workers(
    clock: FakeClock, has_workers: bool
) -> None:
    """Twice as fast, but for one block in five, in which the workers start."""
    a, _ = _arm(clock, lambda: 0.010)
    steps = itertools.cycle([0.005] * 4 + [0.060])
    b, _ = _arm(clock, lambda: next(steps), has_workers=has_workers)
    found = compare(a, b, seed=0)
    if has_workers:
        assert found.decision != "faster"
        assert found.ratio == pytest.approx(10 / 16, rel=0.05)
    else:
        assert found.ratio == pytest.approx(2.0)


def test_it_is_over_when_it_decides_together_with_an_earlier_one(clock: FakeClock) -> None:
    a, _ = _arm(clock, lambda: 0.0102)
    b, _ = _arm(clock, lambda: 0.0100)
    alone = compare(a, b, seed=0, margin=0.019, limit_s=8.0)
    assert alone.decision == "faster"
    doubted = [Interval(1.0, 0.9, 1.1)]
    found = compare(a, b, seed=0, margin=0.019, limit_s=8.0, earlier=doubted)
    assert found.decision == "faster", "what is kept is its own"
    assert found.elapsed_s > alone.elapsed_s
    agreeing = [Interval(1.03, 1.02, 1.04)]
    together = compare(a, b, seed=0, margin=0.01, limit_s=8.0, earlier=agreeing)
    assert together.elapsed_s == pytest.approx(comparing.LOOKS_S[0], abs=0.2)


def test_on_a_noisy_machine_it_goes_on_until_the_same_is_shown(clock: FakeClock) -> None:
    draw = random.Random(0)
    a, _ = _arm(clock, lambda: 0.01 * draw.uniform(0.9, 1.1))
    b, _ = _arm(clock, lambda: 0.01 * draw.uniform(0.9, 1.1))
    found = compare(a, b, seed=0, margin=0.08)
    assert comparing.LOOKS_S[0] + 1 < found.elapsed_s < comparing.LOOKS_S[-1]
    assert 1 / 1.03 < found.low < found.high < 1.03


def test_work_for_another_device_is_timed_in_shorter_blocks() -> None:
    assert comparing.steps_of_block(0.002, 0, "cpu") == 10
    assert comparing.steps_of_block(0.002, 0, "cuda") == 2
    assert comparing.steps_of_block(0.002, 4, "cuda") == 4
    assert comparing.steps_of_block(1.0, 0, "cuda") == 1


def test_drift_of_both_arms_is_not_a_difference(clock: FakeClock) -> None:
    def drifting() -> float:
        return 0.005 * (1 + clock.now / 20)

    a, _ = _arm(clock, drifting)
    b, _ = _arm(clock, drifting)
    assert compare(a, b, seed=0).decision not in ("faster", "slower")


def test_each_arm_goes_first_about_half_of_the_time_and_is_paused_after_each_block(
    clock: FakeClock,
) -> None:
    a, worker_a = _arm(clock, lambda: 0.005)
    b, worker_b = _arm(clock, lambda: 0.005)
    found = compare(a, b, seed=1)
    first = sum(each.first == "a" for each in found.rounds)
    assert 0.3 < first / len(found.rounds) < 0.7
    assert worker_a.pauses == worker_b.pauses == len(found.rounds)


def test_the_order_is_the_same_for_the_same_seed(clock: FakeClock) -> None:
    orders = []
    for _ in range(2):
        a, _ = _arm(clock, lambda: 0.005)
        b, _ = _arm(clock, lambda: 0.005)
        orders.append([each.first for each in compare(a, b, seed=7).rounds])
    fewest = min(map(len, orders))  # the clock's rounding may make it one more
    assert fewest >= 20
    assert orders[0][:fewest] == orders[1][:fewest]


def test_a_block_has_as_many_steps_as_are_thrown_away_before_it(clock: FakeClock) -> None:
    a, worker_a = _arm(clock, lambda: 0.010, ahead=6)
    b, worker_b = _arm(clock, lambda: 0.010)
    compare(a, b, seed=0)
    assert (worker_a.steps, worker_b.steps) == ({6}, {2})


def test_each_arm_fills_a_block_of_its_own(clock: FakeClock) -> None:
    a, worker_a = _arm(clock, lambda: 0.020)
    b, worker_b = _arm(clock, lambda: 0.001)
    assert compare(a, b, seed=0).ratio == pytest.approx(20)
    assert (worker_a.steps, worker_b.steps) == ({1}, {20})


def test_cores_are_let_go_of_where_a_worker_fails(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other arm goes on to the next comparison."""
    done: list[str] = []
    cores = SimpleNamespace(draw=lambda: done.append("drawn"), release=lambda: done.append("free"))
    monkeypatch.setattr(comparing, "SharedCores", lambda *_: cores)
    a, _ = _arm(clock, lambda: 0.005)
    b, worker = _arm(clock, lambda: 0.005)
    monkeypatch.setattr(worker, "ask", lambda *_: (_ for _ in ()).throw(RuntimeError("killed")))
    with pytest.raises(RuntimeError, match="killed"):
        compare(a, b, seed=0)
    assert done == ["drawn", "free"]


def test_slow_steps_still_get_the_rounds_that_an_interval_needs(clock: FakeClock) -> None:
    a, _ = _arm(clock, lambda: 3.0)
    b, _ = _arm(clock, lambda: 2.0)
    found = compare(a, b, seed=0, limit_s=30)
    assert len(found.rounds) >= 20
    assert found.decision == "faster"


@pytest.mark.parametrize(("only_faster", "ends_after_s"), [(True, 4), (False, 30)])
def test_the_search_stops_when_a_candidate_can_no_longer_win(
    clock: FakeClock, only_faster: bool, ends_after_s: float
) -> None:
    # Between as fast and 1.6 % slower: not certainly slower than the margin, but never faster.
    draw = random.Random(0)
    a, _ = _arm(clock, lambda: 0.005)
    b, _ = _arm(clock, lambda: draw.choice((0.005, 0.00508)))
    found = compare(a, b, seed=0, only_faster=only_faster)
    assert found.decision == "undecided"
    assert found.elapsed_s == pytest.approx(ends_after_s, abs=0.2)


@pytest.mark.parametrize(
    ("ratio", "high", "is_so"),
    [(0.99, 1.005, True), (1.0, 1.04, True), (1.02, 1.04, False), (1.0, 1.06, False)],
)
def test_a_small_gain_of_which_nothing_is_seen_is_hopeless(
    ratio: float, high: float, is_so: bool
) -> None:
    assert is_hopeless(ratio, high, margin=0.01) == is_so


def test_the_search_does_not_wait_for_one(clock: FakeClock) -> None:
    draw = random.Random(0)
    a, _ = _arm(clock, lambda: 0.005 * draw.uniform(0.8, 1.25))
    b, _ = _arm(clock, lambda: 0.005 * draw.uniform(0.8, 1.25))
    found = compare(a, b, seed=0, only_faster=True)
    assert found.decision == "undecided"
    assert 1.01 < found.high < 1.05
    assert found.elapsed_s < 30


def test_a_gauge_takes_its_time_though_it_is_long_decided(clock: FakeClock) -> None:
    a, worker_a = _arm(clock, lambda: 0.001)
    b, worker_b = _arm(clock, lambda: 0.030)
    found = gauging.gauge(a, b, seed=0)
    assert found.elapsed_s == pytest.approx(gauging.GAUGE_S, abs=0.2)
    assert found.ratio == pytest.approx(1 / 30)
    assert worker_a.pauses == worker_b.pauses == len(found.rounds)


def test_each_arm_of_a_gauge_has_blocks_of_its_own_length(clock: FakeClock) -> None:
    a, worker_a = _arm(clock, lambda: 0.001)
    b, worker_b = _arm(clock, lambda: 2.0)
    found = gauging.gauge(a, b, seed=0)
    assert worker_a.steps == {20}
    assert worker_b.steps == {1}
    assert len(found.rounds) == 20, "fewer say nothing, however long they take"
