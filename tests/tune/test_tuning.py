"""What a tuning leaves out of its chapters."""

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from hasten.records.plan import NAIVE, Plan
from hasten.records.tuning import Spent
from hasten.tune import tuning as module
from hasten.tune.journal import Learnt
from hasten.tune.spending import Stopwatch
from hasten.tune.tuning import Tuning
from specimens import PROVEN, make_trial


@pytest.mark.parametrize(
    ("plan", "is_too_large"),
    [(NAIVE, False), (Plan(parts={"fused_optimizer": {}}), True)],
    ids=["no plan", "none that fits"],
)
def test_what_no_recipe_can_come_of_is_not_proven_for_minutes(
    plan: Plan, is_too_large: bool
) -> None:
    search: Any = SimpleNamespace(plan=plan, is_too_large=lambda: is_too_large)
    assert object.__new__(Tuning).settle(search) is None  # which has no settler


SHORT = replace(
    PROVEN,
    minutes=1.0,
    trials=(make_trial("compile", "out_of_time"), make_trial("attention", "not_faster")),
    spent=Spent(search_s=60.0),
)
"""Of a tuning that would have gone on."""


@pytest.mark.parametrize(
    ("spent_since_s", "spent_s"),
    [(None, 60.0), (70.0, 0.0), (0.0, 60.0)],
    ids=["not stopped since", "its journal has what that was", "stopped as it proved the recipe"],
)
def test_what_more_minutes_go_on_from_is_part_of_what_was_spent(
    spent_since_s: float | None, spent_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "earlier_tuning", lambda *_: SHORT)
    notes: list[str] = []
    tuning: Any = object.__new__(Tuning)
    tuning._out, tuning._subject, tuning._minutes = "out", None, 2.0
    tuning._watch, tuning._note = Stopwatch(), notes.append
    since = make_trial("fused_optimizer", "not_faster")
    tuning._learnt = Learnt(
        trials={since.key(): since} if spent_since_s else {},
        spent=Spent(search_s=spent_since_s or 0.0),
    )
    assert tuning.prove_again() is None
    assert tuning._watch.spent().search_s == spent_s
    assert notes == [f"going on from what is in out; trials taken over: {1 + bool(spent_since_s)}"]
