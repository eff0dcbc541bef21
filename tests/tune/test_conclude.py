"""The outcome of a tuning: a recipe only where every claim stands."""

import itertools
from typing import get_args

import msgspec
import pytest

from hasten.records.finding import MEMORY_PEAK
from hasten.records.recipe import Confirmation
from hasten.records.trial import Outcome
from hasten.records.tuning import Aim, Spent, Subject
from hasten.records.verdict import NumericsClaim, SpeedClaim, Verdict
from hasten.tune.conclude import conclude, evidence_of
from specimens import (
    CONFIRMATION,
    CONTROL,
    DIAGNOSED,
    ENVIRONMENT,
    NUMERICS,
    SPEED,
    TRAITS,
    make_comparison,
    make_trial,
)

replace = msgspec.structs.replace

CONFIRMATIONS: dict[str, Confirmation | None] = {
    "none": None,
    "failed": replace(CONFIRMATION, failure="a worker died", pairs=CONFIRMATION.pairs[:1]),
    "failed after its pairs": replace(CONFIRMATION, failure="a worker died"),
    "done": CONFIRMATION,
}
SPEEDS: dict[str, SpeedClaim | None] = {
    "none": None,
    **{verdict: replace(SPEED, verdict=verdict) for verdict in get_args(Verdict)},
}
NUMERICS_CLAIMS: dict[str, NumericsClaim | None] = {
    "none": None,
    "without a check": replace(NUMERICS, checks=()),
    **{
        verdict: replace(
            NUMERICS, verdict=verdict, checks=(replace(NUMERICS.checks[0], verdict=verdict),)
        )
        for verdict in get_args(Verdict)
    },
}
EVERY = list(itertools.product(CONFIRMATIONS, SPEEDS, NUMERICS_CLAIMS))
ALL_STAND = ("done", "proven", "proven")


@pytest.mark.parametrize("combination", EVERY, ids=" | ".join)
def test_only_where_all_claims_stand_is_there_a_recipe(combination: tuple[str, str, str]) -> None:
    confirmation, speed, numerics = combination
    outcome, verdict, why = conclude(
        [make_trial("compile")],
        CONFIRMATIONS[confirmation],
        SPEEDS[speed],
        NUMERICS_CLAIMS[numerics],
    )
    stands = combination == ALL_STAND
    assert (outcome == "recipe") == stands
    assert (verdict == "proven") == stands
    assert why


def test_numerics_that_were_refuted_refute_the_whole() -> None:
    outcome, verdict, why = conclude([], CONFIRMATION, SPEED, NUMERICS_CLAIMS["refuted"])
    assert (outcome, verdict) == ("unproven", "refuted")
    assert why == NUMERICS.checks[0].why


def test_numerics_are_told_before_speed() -> None:
    refuted = NUMERICS_CLAIMS["refuted"]
    _, _, why = conclude([], CONFIRMATION, SPEEDS["not_proven"], refuted)
    assert refuted is not None
    assert why == refuted.why()


def test_a_speed_that_was_refuted_refutes_the_whole_with_its_figures() -> None:
    speed = replace(SPEED, verdict="refuted", low=0.95, high=1.01)
    outcome, verdict, why = conclude([], CONFIRMATION, speed, NUMERICS)
    assert (outcome, verdict) == ("unproven", "refuted")
    assert why == "fresh processes gave 0.950x to 1.010x, and noise here is 1.020x"


def test_a_worker_that_died_is_told() -> None:
    for name in ("failed", "failed after its pairs"):
        outcome, verdict, why = conclude([], CONFIRMATIONS[name], SPEED, NUMERICS)
        assert (outcome, verdict, why) == ("unproven", "not_proven", "a worker died")


def test_a_technique_that_did_not_run_is_told() -> None:
    outcome, verdict, why = conclude([], CONFIRMATION, None, NUMERICS)
    assert (outcome, verdict) == ("unproven", "not_proven")
    assert why == "a technique did not run in the fresh processes"


@pytest.mark.parametrize("outcome", ["no_verdict", "not_proven", "failed", "below_noise"])
def test_a_trial_in_doubt_is_not_nothing_to_gain(outcome: Outcome) -> None:
    trials = [make_trial("fused_optimizer", "not_faster"), make_trial("compile", outcome)]
    assert conclude(trials, None, None, None) == (
        "unproven",
        "not_proven",
        "no verdict on compile",
    )


def test_what_had_no_turn_is_told_from_what_had_no_verdict() -> None:
    outcomes: list[tuple[str, Outcome]] = [
        ("kept_memory", "no_verdict"),
        ("compile", "out_of_time"),
        ("attention", "out_of_time"),
        ("kept_memory", "no_verdict"),
    ]
    _, _, why = conclude([make_trial(*each) for each in outcomes], None, None, None)
    assert why == "no verdict on kept_memory; no time for compile, attention"


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("not_faster", "no change that was tried made the training faster"),
        ("refuted", "compile would be faster, and would be another training"),
        ("fell_back", "no technique has something to try here"),
        ("not_tried", "no technique has something to try here"),
    ],
)
def test_where_no_trial_is_in_doubt_there_is_nothing_to_gain(outcome: Outcome, said: str) -> None:
    trial = make_trial("compile", outcome)
    if outcome in ("fell_back", "not_tried"):
        trial = replace(trial, comparison=None)
    elif trial.comparison is None:
        trial = replace(trial, comparison=make_comparison(0.9))
    concluded, verdict, why = conclude([trial], None, None, None)
    assert (concluded, verdict, why) == ("nothing_to_gain", "not_proven", said)


def test_what_was_not_waited_for_is_no_claim_that_there_is_nothing() -> None:
    comparison = replace(CONFIRMATION.pairs[0], ratio=1.0, low=0.96, high=1.043, margin=0.01)
    trial = replace(make_trial("compile", "not_faster"), comparison=comparison)
    assert conclude([trial], None, None, None) == (
        "nothing_to_gain",
        "not_proven",
        "no change that was tried made the training faster by 4.3 % or more",
    )


@pytest.mark.parametrize(
    ("bound", "outcome", "said"),
    [
        (1.042, "nothing_to_gain", "made the training faster by 4.2 % or more"),
        (1.08, "unproven", "no verdict on compile"),
    ],
)
def test_a_bound_within_the_noise_is_in_doubt_where_it_is_worth_the_wait(
    bound: float, outcome: str, said: str
) -> None:
    trial = make_trial("compile", "below_noise")
    trial = replace(trial, candidate=replace(trial.candidate, bound=bound))
    slow = replace(make_trial("fused_optimizer", "not_faster"), comparison=make_comparison(0.9))
    found, _, why = conclude([slow, trial], None, None, None)
    assert found == outcome
    assert why.endswith(said)


def test_without_any_trial_there_is_nothing_to_gain() -> None:
    assert conclude([], None, None, None)[0] == "nothing_to_gain"


@pytest.mark.parametrize(
    ("peak", "outcome"), [(101, "unproven"), (100, "nothing_to_gain"), (None, "nothing_to_gain")]
)
@pytest.mark.parametrize("in_time", [True, False])
def test_a_limit_that_nothing_meets_is_no_success(
    in_time: bool, peak: int | None, outcome: str
) -> None:
    subject = Subject(
        task="train.py:make_task",
        seed=0,
        hasten="0.1.0",
        environment=ENVIRONMENT,
        traits=TRAITS,
        sources={},
        aim=Aim(memory_bytes=100),
    )
    trials = [make_trial("gradient_accumulation", "not_smaller")]
    late = make_trial("activation_checkpointing", "out_of_time")
    late = replace(late, candidate=replace(late.candidate, finding=MEMORY_PEAK))
    if not in_time:
        trials.append(late)
    evidence = evidence_of(
        subject,
        CONTROL,
        [DIAGNOSED],
        trials,
        None,
        Spent(),
        minutes=10.0,
        peak_bytes=peak,
    )
    if peak != 101:
        assert evidence.outcome == (outcome if in_time else "unproven")
        return
    assert evidence.outcome == outcome
    assert "101 B at its peak, and 100 B are allowed" in evidence.why
    assert evidence.verdict == ("refuted" if in_time else "not_proven"), "it may have fitted"
    assert evidence.why.endswith("no time for activation_checkpointing") != in_time
