"""What a tuning leaves out of its chapters."""

from types import SimpleNamespace
from typing import Any

import pytest

from hasten.records.plan import NAIVE, Plan
from hasten.tune.tuning import Tuning


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
