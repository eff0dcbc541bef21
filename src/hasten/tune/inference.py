"""Latency and throughput of two arms' models in evaluation, for one row and for a batch."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

from hasten.errors import HastenError
from hasten.measure.gauge import gauge
from hasten.measure.lab import Lab, Subject, latencies_of
from hasten.measure.messages import LatenciesRead
from hasten.measure.worker import WorkerFailure
from hasten.records.inference import InferenceReport, InferenceSize, Latency
from hasten.records.plan import Plan
from hasten.records.recipe import Confirmation
from hasten.records.verdict import Comparison, Decision, SpeedClaim, Verdict
from hasten.tune.arms import find_arms
from hasten.tune.bench import decide_speed
from hasten.tune.confirm import are_to_be_more, claim_speed, measure_noise, noise_floor

Tell = Callable[[str], None]
SIZES = (1, 0)
"""Rows of a call; 0 is the task's batch."""


def bench_inference(task: str, a: str, b: str, *, seed: int, tell: Tell) -> InferenceReport:
    """Does the model of ``b`` answer faster than that of ``a``?"""
    with Lab(task, seed) as lab:
        arms = find_arms(lab, a, b, tell)
        acting = arms.described.in_evaluation
        one, other = (_in_evaluation(each, task, acting) for each in (arms.a, arms.b))
        if one == other:
            raise HastenError(
                f"{a} and {b} are the same in evaluation: {one.plan} of {one.task}.",
                fix=f"These act on a model that is not trained: {', '.join(acting)}.",
            )
        measured = [_size(lab, one, other, rows, tell) for rows in SIZES]
    sizes = tuple(size for size, _ in measured)
    return InferenceReport(
        task=task,
        a=a,
        b=b,
        plan_a=one.plan,
        plan_b=other.plan,
        verdict=_verdict([size.speed for size in sizes]),
        regression=any(size.outcome == "slower" for size in sizes),
        with_loss=any(with_loss for _, with_loss in measured),
        environment=arms.described.environment,
        sizes=sizes,
    )


def _in_evaluation(arm: Plan | Subject, task: str, acting: Sequence[str]) -> Subject:
    one = arm if isinstance(arm, Subject) else Subject(task, arm)
    return replace(one, plan=one.plan.without(*set(one.plan.parts).difference(acting)))


def _size(lab: Lab, a: Subject, b: Subject, rows: int, tell: Tell) -> tuple[InferenceSize, bool]:
    a, b = replace(a, evaluated_rows=rows), replace(b, evaluated_rows=rows)
    control = measure_noise(lab, a, tell)
    floor = noise_floor(control)
    confirmation, a_calls, b_calls = _confirm(lab, a, b, floor, tell)
    speed = claim_speed(confirmation, floor)
    outcome: Decision = "undecided" if speed is None else decide_speed(speed)
    size = InferenceSize(
        rows=a_calls[0].rows,
        a=_latency(a_calls),
        b=_latency(b_calls),
        outcome=outcome,
        control=control,
        confirmation=confirmation,
        speed=speed,
    )
    return size, any(each.with_loss for each in (*a_calls, *b_calls))


def _confirm(
    lab: Lab, a: Subject, b: Subject, floor: float, tell: Tell
) -> tuple[Confirmation, list[LatenciesRead], list[LatenciesRead]]:
    """Pairs of fresh processes, as many as a claim of training takes, and the calls of each arm in
    them."""
    pairs: list[Comparison] = []
    applied = []
    a_calls, b_calls = [], []
    while are_to_be_more(pairs, floor):
        number = len(pairs) + 1
        rows = "a batch" if a.evaluated_rows == 0 else f"{a.evaluated_rows} row"
        tell(f"calling with {rows}, in fresh processes, pair {number}")
        try:
            arm_a, arm_b = lab.arms(a, b)
            pairs.append(gauge(arm_a, arm_b, seed=3000 + number))
            a_calls.append(latencies_of(arm_a))
            b_calls.append(latencies_of(arm_b))
            a_memory, b_memory = arm_a.read(), arm_b.read()
            applied += [*arm_a.applied, *arm_b.applied]
        except WorkerFailure as failure:
            raise failure.as_error() from failure
        finally:
            lab.close_workers()
    confirmation = Confirmation(
        pairs=tuple(pairs),
        applied=tuple(applied),
        a_memory=a_memory,
        b_memory=b_memory,
        failure=None,
    )
    return confirmation, a_calls, b_calls


def _latency(calls: Sequence[LatenciesRead]) -> Latency:
    seconds = [second for each in calls for second in each.seconds]
    percent = statistics.quantiles(seconds, n=100, method="inclusive")
    return Latency(
        median_s=statistics.median(seconds),
        p95_s=percent[94],
        p99_s=percent[98],
        calls=len(seconds),
    )


def _verdict(claims: Sequence[SpeedClaim | None]) -> Verdict:
    verdicts = {"not_proven" if claim is None else claim.verdict for claim in claims}
    if verdicts == {"proven"}:
        return "proven"
    return "refuted" if verdicts == {"refuted"} else "not_proven"
