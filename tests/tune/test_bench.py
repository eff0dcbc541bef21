"""The verdict of a comparison in four words."""

import math
from types import SimpleNamespace

import msgspec
import pytest

from hasten.errors import HastenError
from hasten.records.plan import NAIVE
from hasten.records.verdict import Control, SpeedClaim
from hasten.tune import bench as benching
from hasten.tune.bench import decide_speed
from hasten.tune.confirm import claim_speed, noise_floor
from specimens import CONFIRMATION, CONTROL, make_comparison


def claimed(low: float, high: float, floor: float) -> SpeedClaim:
    pair = make_comparison(math.sqrt(low * high))
    speed = claim_speed(msgspec.structs.replace(CONFIRMATION, pairs=(pair, pair)), floor)
    assert speed is not None
    verdict = "proven" if low > floor else "not_proven"
    return msgspec.structs.replace(speed, low=low, high=high, verdict=verdict)


def test_an_arm_that_crashes_is_a_fault_and_no_missing_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crashed = msgspec.structs.replace(CONFIRMATION, pairs=(), failure="It ended (signal 11).")
    monkeypatch.setattr(benching, "find_arms", lambda *given: SimpleNamespace(a=NAIVE, b=NAIVE))
    monkeypatch.setattr(benching, "measure_noise", lambda *given: CONTROL)
    monkeypatch.setattr(benching, "confirm", lambda *given: crashed)
    with pytest.raises(HastenError, match=r"cannot be compared. It ended \(signal 11\)"):
        benching.bench("train.py:task", "naive", "new.py:task", seed=0, tell=lambda words: None)


@pytest.mark.parametrize(("ratio", "floor"), [(1.0, 1.01), (1.05, 1.05), (0.8, 1.25)])
def test_the_floor_is_what_identical_arms_differed_by(ratio: float, floor: float) -> None:
    assert noise_floor(Control(runs=(make_comparison(ratio),))) == pytest.approx(floor)


@pytest.mark.parametrize(
    ("low", "high", "floor", "word"),
    [
        (1.19, 1.29, 1.012, "faster"),
        (1.02, 1.05, 1.03, "undecided"),
        (0.80, 0.90, 1.012, "slower"),
        (0.80, 0.90, 1.15, "undecided"),
        (0.99, 1.01, 1.012, "same"),
        (0.99, 1.01, 1.5, "same"),
        (0.98, 1.029, 1.03, "same"),
        (0.95, 1.05, 1.06, "undecided"),
        (0.96, 1.00, 1.05, "undecided"),
        (1.015, 1.02, 1.012, "faster"),
    ],
)
def test_the_interval_the_noise_and_three_percent_decide(
    low: float, high: float, floor: float, word: str
) -> None:
    assert decide_speed(claimed(low, high, floor)) == word
