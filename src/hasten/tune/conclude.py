"""The claims become one outcome. Fails closed: a missing claim is an unproven one."""

from collections.abc import Sequence
from typing import Literal

from hasten.records.plan import Rung
from hasten.records.recipe import Confirmation
from hasten.records.trial import Outcome, Trial
from hasten.records.verdict import NumericsClaim, SpeedClaim, Verdict

IN_DOUBT: tuple[Outcome, ...] = (
    "no_verdict",
    "not_proven",
    "failed",
    "out_of_memory",
    "below_noise",
    "out_of_time",
)
"""A trial that ended so says nothing about what there is to gain."""
Conclusion = Literal["recipe", "nothing_to_gain", "unproven"]


def conclude(
    trials: Sequence[Trial],
    confirmation: Confirmation | None,
    speed: SpeedClaim | None,
    numerics: NumericsClaim | None,
) -> tuple[Conclusion, Verdict, str]:
    """What the tuning came to, the verdict on "it is faster and the same", and why."""
    if confirmation is None:
        return _nothing_kept(trials)
    if numerics is None or not numerics.checks:
        return "unproven", "not_proven", "numerics were not checked"
    if numerics.verdict != "proven":
        return "unproven", numerics.verdict, numerics.why()
    if speed is None or confirmation.failure is not None:
        why = confirmation.failure or "a technique did not run in the fresh processes"
        return "unproven", "not_proven", why
    if speed.verdict != "proven":
        interval = f"{speed.low:.3f}x to {speed.high:.3f}x"
        why = f"fresh processes gave {interval}, and noise here is {speed.noise_floor:.3f}x"
        return "unproven", speed.verdict, why
    same = "trains as well" if numerics.rung is Rung.PARITY else "the same training"
    return "recipe", "proven", f"faster in fresh processes, and {same}"


def _nothing_kept(trials: Sequence[Trial]) -> tuple[Conclusion, Verdict, str]:
    doubtful = [each for each in trials if each.outcome in IN_DOUBT]
    if doubtful:
        names = ", ".join(each.candidate.technique for each in doubtful)
        return "unproven", "not_proven", f"no verdict on {names}"
    refuted = [each.candidate.technique for each in trials if each.outcome == "refuted"]
    if refuted:
        why = f"{', '.join(refuted)} would be faster, and would be another training"
        return "nothing_to_gain", "not_proven", why
    if not any(each.comparison for each in trials):
        return "nothing_to_gain", "not_proven", "no technique has something to try here"
    return "nothing_to_gain", "not_proven", "no change that was tried made the training faster"
