"""A profile takes no turns: one that something else disturbed is taken again, or said to be."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from hasten.records.plan import NAIVE
from hasten.records.profile import ProfileParts
from hasten.tune import examine
from hasten.tune.conclude import evidence_of
from hasten.tune.examine import MOST_PROFILES, Examiner
from hasten.tune.journal import Journal, Learnt, has_learnt
from hasten.tune.spending import Stopwatch
from specimens import (
    CONTROL,
    DIAGNOSED,
    ENVIRONMENT,
    FINDING,
    PROVEN,
    TRAITS,
    make_trial,
)

replace = msgspec.structs.replace
MEASUREMENT = DIAGNOSED.measurement
ROW_S = MEASUREMENT.step_s() / MEASUREMENT.rows[0]


def profile(times: float) -> ProfileParts:
    """Of steps that took so many times as long as they do in turns."""
    (step,) = MEASUREMENT.steps
    rest = (times - 1) * step.total_s()
    longer = replace(step, host_s=step.host_s + rest)
    return ProfileParts(measurement=replace(MEASUREMENT, steps=(longer,)))


@pytest.fixture
def examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the examiner makes of one profile after the other, and what it says."""
    found = SimpleNamespace(limit="balanced", why="nothing stands out", findings=(FINDING,))
    monkeypatch.setattr(examine, "diagnosis_of", lambda parts, described: found)
    monkeypatch.setattr(Examiner, "_code_of", lambda self, parts: ())

    def run(*times: float) -> Any:
        profiles, told = list(map(profile, times)), list[str]()
        lab: Any = SimpleNamespace(profile=lambda *_, **__: profiles.pop(0))
        with Journal(tmp_path, Stopwatch()) as journal:
            journal.note(PROVEN.speed)  # the first line is of the subject
            nothing: Any = None
            one = Examiner(lab, nothing, journal, Learnt(), told.append, row_s=ROW_S)
            diagnosed = one.examine(NAIVE)
        return SimpleNamespace(
            diagnosed=diagnosed,
            left=len(profiles),
            told=told,
            is_noted=has_learnt(tmp_path),
        )

    return run


def test_a_profile_that_nothing_disturbed_is_taken_once(examined: Any) -> None:
    seen = examined(1.2, 1.0)
    assert (seen.left, seen.told, seen.diagnosed.disturbed) == (1, [], "")
    assert seen.is_noted


def test_a_disturbed_one_is_taken_again_and_the_quickest_counts(examined: Any) -> None:
    seen = examined(50.0, 1.1)
    assert seen.diagnosed.measurement == profile(1.1).measurement
    assert seen.diagnosed.disturbed == ""
    assert seen.told == ["measuring that once more: something else kept the machine busy"]


def test_where_all_are_it_is_said_and_no_later_tuning_goes_by_it(examined: Any) -> None:
    seen = examined(*[50.0] * (MOST_PROFILES - 1), 40.0)
    assert seen.left == 0
    assert seen.diagnosed.disturbed == (
        "a step took 400.0 ms while this was measured, and no more than 10.0 ms in turns"
        " with another: something else kept the machine busy"
    )
    assert not seen.is_noted
    evidence = replace(PROVEN, diagnosed=(seen.diagnosed,))
    learnt = Learnt()
    learnt.go_on_from(evidence)
    assert learnt.diagnosed == {}


def test_nothing_to_gain_is_not_said_of_a_machine_that_was_too_busy_to_look() -> None:
    subject: Any = SimpleNamespace(
        task="t",
        seed=0,
        hasten="0",
        environment=ENVIRONMENT,
        traits=TRAITS,
        aim=PROVEN.aim,
        digest=lambda: "5" * 64,
    )
    for why, outcome in (("", "nothing_to_gain"), ("a step took 9 s", "unproven")):
        naive = replace(DIAGNOSED, disturbed=why)
        trials = (make_trial("compile", "not_faster"),)
        evidence = evidence_of(subject, CONTROL, (naive,), trials, None, PROVEN.spent, minutes=1.0)
        assert evidence.outcome == outcome
        assert why in evidence.why
