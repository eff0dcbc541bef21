"""The final word on speed: fresh processes, and beyond what identical arms showed."""

import statistics
from collections.abc import Callable, Sequence
from functools import partial

from hasten.measure.compare import LOOKS_S
from hasten.measure.lab import Lab, Subject
from hasten.measure.worker import WorkerFailure, once_more
from hasten.records.applied import Applied
from hasten.records.plan import NAIVE, Plan
from hasten.records.recipe import Confirmation
from hasten.records.tuning import Aim
from hasten.records.verdict import Comparison, Control, MemoryClaim, SpeedClaim, Verdict
from hasten.stats.paired import MARGIN, Interval, decide, pooled

CONTROL_S = 12.0
"""Longer gives a lower floor on a noisy machine, which matters for gains of a few percent only."""
UNUSUAL = 1.05
"""Two identical arms that differ by more were disturbed, or the machine is like that: two more
controls tell, and the one in the middle counts."""
PAIRS, MOST_PAIRS = 2, 8
"""Two processes keep an offset for as long as they live; a second pair has another one. Of small
networks it can be far above the floor, and two pairs agree by luck: so what they claim is held
against more of them, three in all at least, until it stands or so many have been run."""
SMALLER = 0.98
"""Of a peak: what lowers it by less is not worth its time."""
FIRST_S = 12.0
"""Of a pair. A small difference is left to the second one, and to both together."""


def measure_noise(lab: Lab, plan: Plan | Subject, tell: Callable[[str], None]) -> Control:
    """Two identical arms, in processes of their own: what difference is none?"""
    found: list[Comparison] = []
    try:
        for number in range(3):
            more = " once more: it was large" if number else ""
            tell(f"measuring the noise of this machine{more} ({plan} against itself)")
            seed = lab.seed + number
            run = partial(lab.compare, plan, plan, seed=seed, limit_s=CONTROL_S)
            found.append(once_more(run).comparison)
            if found[0].apart() <= UNUSUAL:
                break
    except WorkerFailure as failure:
        if not found:
            raise failure.as_error() from failure
    return Control(runs=tuple(found))


def row_s(control: Control) -> float:
    """Seconds that the naive training took for a row, in either of its processes."""
    rounds = control.middle().rounds
    return statistics.median(each for one in rounds for each in (one.a_s, one.b_s))


def confirm(
    lab: Lab, a: Plan | Subject, b: Plan | Subject, floor: float, tell: Callable[[str], None]
) -> Confirmation:
    """B against A in pairs of fresh processes, until together they are clear of the floor, and
    differ among themselves by so little that it stands."""
    pairs: list[Comparison] = []
    applied: tuple[Applied, ...] = ()
    a_memory = b_memory = failure = None
    begun_again = ""
    while are_to_be_more(pairs, floor):
        number = len(pairs) + 1
        tell(pair_in_words(number))
        try:
            contest = lab.compare(
                a,
                b,
                seed=1000 + number,
                margin=floor - 1,
                limit_s=LOOKS_S[-1] if number == PAIRS else FIRST_S,
                earlier=[_interval(each) for each in pairs] if number == PAIRS else [],
            )
        except WorkerFailure as error:
            if error.failed.kind == "crashed" and not begun_again:
                begun_again = error.failed.what  # once may be the machine's fault
                continue
            failure = str(error.as_error())
            break
        pairs.append(contest.comparison)
        a_memory, b_memory = contest.a_memory, contest.b_memory
        applied = (*applied, *contest.applied)
    return Confirmation(
        pairs=tuple(pairs),
        applied=applied,
        a_memory=a_memory,
        b_memory=b_memory,
        failure=failure,
        begun_again=begun_again,
    )


def pair_in_words(number: int) -> str:
    return f"confirming in fresh processes, pair {number}"


def are_to_be_more(pairs: Sequence[Comparison], floor: float) -> bool:
    """Until there are enough, and where these claim a difference that all together do not yet
    support."""
    if len(pairs) < PAIRS:
        return True
    found = [_interval(each) for each in pairs]
    claimed = decide(pooled(found[:PAIRS], offset=floor - 1), floor - 1)
    stands = len(pairs) > PAIRS and decide(pooled(found, offset=floor - 1), floor - 1) == claimed
    return claimed in ("faster", "slower") and not stands and len(pairs) < MOST_PAIRS


def claim_memory(lab: Lab, plan: Plan, aim: Aim) -> MemoryClaim | None:
    """None where the aim does not mind it, or a process did not come to its end."""
    if not aim.minds_memory():
        return None
    try:
        peaks = [once_more(partial(lab.peak, each, anew=True)) for each in (NAIVE, plan)]
    except WorkerFailure:
        return None
    before, after = peaks
    fits = aim.memory_bytes is None or after <= aim.memory_bytes
    lower = after <= SMALLER * before or (aim.goal == "speed" and fits)
    return MemoryClaim(
        verdict="proven" if lower and fits else "refuted",
        a_bytes=before,
        b_bytes=after,
        allowed_bytes=aim.memory_bytes,
    )


def noise_floor(control: Control) -> float:
    """What two identical arms differed by, and never less than the margin.

    How well they could be told apart is no part of it: a claim's own interval is as wide.
    """
    return max(1 + MARGIN, control.middle().apart())


def claim_speed(confirmation: Confirmation, floor: float) -> SpeedClaim | None:
    """All pairs together. The interval covers what each came to: one lucky process proves nothing.

    No claim at all where a pair is missing or failed, or a technique did not really run.
    """
    pairs = confirmation.pairs
    lost = confirmation.failure or any(each.outcome != "done" for each in confirmation.applied)
    if len(pairs) < PAIRS or lost:
        return None
    found = pooled([_interval(each) for each in pairs], offset=floor - 1)
    refuted = found.high < 1 + MARGIN  # not the floor: noise refutes nothing
    verdict: Verdict = "proven" if found.low > floor else "refuted" if refuted else "not_proven"
    a_s = statistics.median(each.a_s for pair in pairs for each in pair.rounds)
    b_s = a_s / found.ratio
    extra = statistics.fmean(each.b_warmup_s - each.a_warmup_s for each in pairs)
    saved_s = a_s - b_s
    return SpeedClaim(
        verdict=verdict,
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        noise_floor=floor,
        a_rows_per_s=1 / a_s,
        b_rows_per_s=1 / b_s,
        disturbed_by=_disturbance(pairs),
        warmup_extra_s=extra,
        break_even_rows=max(extra, 0.0) / saved_s if saved_s > 0 else None,
    )


def _interval(comparison: Comparison) -> Interval:
    return Interval(comparison.ratio, comparison.low, comparison.high)


def _disturbance(pairs: Sequence[Comparison]) -> str | None:
    """Of the pair beside which others took most."""
    loads = [each.load for each in pairs if each.load is not None]
    worst = max(loads, key=lambda load: load.others_cores, default=None)
    return None if worst is None else worst.disturbance()
