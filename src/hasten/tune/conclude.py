"""The claims become one outcome. Fails closed: a missing claim is an unproven one."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec

from hasten.measure.compare import SMALL
from hasten.records.plan import NAIVE, Rung
from hasten.records.recipe import RECIPE_FORMAT, Confirmation, Evidence
from hasten.records.trial import Outcome, Trial
from hasten.records.tuning import FASTER, Aim, Diagnosed, Spent, Subject
from hasten.records.verdict import Control, MemoryClaim, NumericsClaim, SpeedClaim, Verdict
from hasten.report.text import interval, size
from hasten.tune.settle import Settled

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


def evidence_of(
    subject: Subject,
    control: Control,
    diagnosed: Sequence[Diagnosed],
    trials: Sequence[Trial],
    settled: Settled | None,
    spent: Spent,
    *,
    minutes: float,
    peak_bytes: int | None = None,
) -> Evidence:
    """All that a tuning was, and what it came to. ``minutes`` that the search was given;
    ``peak_bytes`` of the best plan, where memory was minded."""
    allowed = subject.aim.memory_bytes
    outcome: Conclusion
    verdict: Verdict
    if settled is None and allowed is not None and peak_bytes is not None and peak_bytes > allowed:
        took = f"a step takes {size(peak_bytes)} at its peak, and {size(allowed)} are allowed"
        doubts = _doubts([each for each in trials if each.candidate.is_for_memory()])
        outcome, verdict = "unproven", "not_proven" if doubts else "refuted"
        why = "; ".join([f"{took}: nothing that was tried makes it small enough", *doubts])
    elif settled is None:
        outcome, verdict, why = conclude(trials, None, None, None, aim=subject.aim)
    else:
        outcome, verdict, why = _of_settled(trials, settled, subject.aim)
    if outcome == "nothing_to_gain" and diagnosed[0].disturbed:
        outcome, why = "unproven", diagnosed[0].disturbed
    return Evidence(
        format=RECIPE_FORMAT,
        task=subject.task,
        created=_now(),
        hasten=subject.hasten,
        outcome=outcome,
        verdict=verdict,
        why=why,
        seed=subject.seed,
        subject=subject.digest(),
        environment=subject.environment,
        traits=subject.traits,
        aim=subject.aim,
        minutes=minutes,
        diagnosed=tuple(diagnosed),
        control=control,
        trials=tuple(trials),
        plan=settled.plan if settled else NAIVE,
        worth=settled.worth if settled else (),
        dropped=settled.dropped if settled else {},
        cut_short=settled.cut_short if settled else (),
        confirmation=settled.confirmation if settled else None,
        speed=settled.speed if settled else None,
        numerics=settled.numerics if settled else None,
        curves=settled.curves if settled else None,
        memory=settled.memory if settled else None,
        spent=spent,
    )


def proven_again(
    earlier: Evidence, control: Control, settled: Settled, spent: Spent
) -> Evidence | None:
    """An earlier tuning of the same subject with claims of today; None where they do not hold."""
    outcome, _, _ = _of_settled((), settled, earlier.aim)
    if outcome != "recipe" or settled.plan != earlier.plan:
        return None
    return msgspec.structs.replace(
        earlier,
        created=_now(),
        control=control,
        confirmation=settled.confirmation,
        speed=settled.speed,
        numerics=settled.numerics,
        curves=settled.curves,
        memory=settled.memory,
        spent=spent,
        proven_again=earlier.proven_again or earlier.created,
    )


def with_larger_batch(evidence: Evidence, trials: Sequence[Trial], spent: Spent) -> Evidence:
    """What larger batches have come to. It takes nothing back that was claimed without them."""
    found = msgspec.structs.replace(evidence, larger_batch=tuple(trials), spent=spent)
    claim = found.sooner()
    if evidence.outcome == "recipe":
        return found
    if claim is not None:
        why = "sooner at the same target over seeds, as another training"
        return msgspec.structs.replace(found, outcome="recipe", verdict="proven", why=why)
    if evidence.outcome == "nothing_to_gain" and any(each.outcome in IN_DOUBT for each in trials):
        why = f"{evidence.why}; no verdict on a larger batch"
        return msgspec.structs.replace(found, outcome="unproven", why=why)
    return found


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _of_settled(
    trials: Sequence[Trial], settled: Settled, aim: Aim
) -> tuple[Conclusion, Verdict, str]:
    return conclude(
        trials, settled.confirmation, settled.speed, settled.numerics, settled.memory, aim
    )


def conclude(
    trials: Sequence[Trial],
    confirmation: Confirmation | None,
    speed: SpeedClaim | None,
    numerics: NumericsClaim | None,
    memory: MemoryClaim | None = None,
    aim: Aim = FASTER,
) -> tuple[Conclusion, Verdict, str]:
    """What the tuning came to, the verdict on what it claims, and why."""
    if confirmation is None:
        return _nothing_kept(trials, aim)
    if numerics is None or not numerics.checks:
        return "unproven", "not_proven", "numerics were not checked"
    if numerics.verdict != "proven":
        return "unproven", numerics.verdict, numerics.why()
    if speed is None or confirmation.failure is not None:
        why = confirmation.failure or "a technique did not run in the fresh processes"
        return "unproven", "not_proven", why
    if aim.minds_memory() and (memory is None or memory.verdict != "proven"):
        return "unproven", *_too_large(memory)
    same = "trains as well" if numerics.rung is Rung.PARITY else "the same training"
    if aim.leaves_pace_open(memory):
        return "recipe", "proven", f"smaller in fresh processes, and {same}"
    if speed.verdict != "proven":
        gave = interval(speed.low, speed.high, 3)
        why = f"fresh processes gave {gave}, and noise here is {speed.noise_floor:.3f}x"
        return "unproven", speed.verdict, why
    return "recipe", "proven", f"faster in fresh processes, and {same}"


def _too_large(memory: MemoryClaim | None) -> tuple[Verdict, str]:
    if memory is None:
        return "not_proven", "the peak of memory was not measured in the fresh processes"
    if memory.allowed_bytes is not None and memory.b_bytes > memory.allowed_bytes:
        peak, allowed = size(memory.b_bytes), size(memory.allowed_bytes)
        return "refuted", f"its peak is {peak} in fresh processes, and {allowed} are allowed"
    return "refuted", f"its peak is {size(memory.b_bytes)}, of {size(memory.a_bytes)} before"


def _nothing_kept(trials: Sequence[Trial], aim: Aim) -> tuple[Conclusion, Verdict, str]:
    if doubts := _doubts([each for each in trials if not _is_small(each)]):
        return "unproven", "not_proven", "; ".join(doubts)
    refuted = [each.candidate.technique for each in trials if each.outcome == "refuted"]
    if refuted:
        better = "smaller" if aim.goal == "memory" else "faster"
        why = f"{', '.join(refuted)} would be {better}, and would be another training"
        return "nothing_to_gain", "not_proven", why
    if not any(each.comparison for each in trials):
        return "nothing_to_gain", "not_proven", "no technique has something to try here"
    better = "smaller" if aim.goal == "memory" else f"faster{_left_open(trials)}"
    return "nothing_to_gain", "not_proven", f"no change that was tried made the training {better}"


def _doubts(trials: Sequence[Trial]) -> list[str]:
    """In words, on what there may yet be to gain."""
    doubtful = [each for each in trials if each.outcome in IN_DOUBT]
    late = [each for each in doubtful if each.outcome == "out_of_time"]
    tried = [each for each in doubtful if each.outcome != "out_of_time"]
    said = (("no verdict on", tried), ("no time for", late))
    return [f"{words} {_names(found)}" for words, found in said if found]


def _names(trials: Sequence[Trial]) -> str:
    return ", ".join(dict.fromkeys(each.candidate.technique for each in trials))


def _is_small(trial: Trial) -> bool:
    """What could gain so little that a search would not wait to see it."""
    return trial.outcome == "below_noise" and trial.candidate.bound < SMALL


def _left_open(trials: Sequence[Trial]) -> str:
    """Small gains that were not waited for."""
    measured = [each.comparison for each in trials if each.comparison]
    most = [each.high for each in measured if each.high >= 1 + each.margin]
    most += [each.candidate.bound for each in trials if _is_small(each)]
    return f" by {100 * (max(most) - 1):.1f} % or more" if most else ""
