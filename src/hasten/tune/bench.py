"""Is one arm faster than another? The confirmation of a tuning, by itself."""

from collections.abc import Callable

from hasten.errors import HastenError
from hasten.measure.lab import Lab
from hasten.records.report import BenchReport
from hasten.records.verdict import Decision, SpeedClaim
from hasten.stats.paired import SAME, Interval, decide
from hasten.tune.arms import find_arms, plan_of
from hasten.tune.confirm import claim_speed, confirm, measure_noise, noise_floor

Tell = Callable[[str], None]


def bench(task: str, a: str, b: str, *, seed: int, tell: Tell) -> BenchReport:
    """Is ``b`` faster than ``a``?"""
    with Lab(task, seed) as lab:
        arms = find_arms(lab, a, b, tell)
        control = measure_noise(lab, arms.a, tell)
        floor = noise_floor(control)
        confirmation = confirm(lab, arms.a, arms.b, floor, tell)
    if confirmation.failure is not None:
        raise HastenError(
            f"{a} and {b} cannot be compared. {confirmation.failure}",
            fix="Bench each against itself to see which of them fails.",
        )
    speed = claim_speed(confirmation, floor)
    outcome = "undecided" if speed is None else decide_speed(speed)
    return BenchReport(
        task=task,
        a=a,
        b=b,
        plan_a=plan_of(arms.a),
        plan_b=plan_of(arms.b),
        verdict="not_proven" if speed is None else speed.verdict,
        outcome=outcome,
        regression=outcome == "slower",
        environment=arms.described.environment,
        control=control,
        confirmation=confirmation,
        speed=speed,
        batch_size=arms.described.traits.data.batch_size,
    )


def decide_speed(speed: SpeedClaim) -> Decision:
    """In the four words of a comparison. A difference lies beyond the noise; "same" is a claim
    too, however noisy the machine is."""
    if speed.verdict == "proven":
        return "faster"
    if speed.high < 1 / speed.noise_floor:
        return "slower"
    is_same = decide(Interval(speed.ratio, speed.low, speed.high), SAME) == "same"
    return "same" if is_same else "undecided"
