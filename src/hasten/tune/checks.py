"""What two sides of a training came to, held against each other: pure functions of their traces.

Each gives a verdict that fails closed: missing, unequal or lost evidence proves nothing.
"""

from hasten.measure import messages
from hasten.records.plan import Rung
from hasten.records.verdict import Check, Verdict
from hasten.stats.yardstick import ALLOWED, Excess, Norms, excess

DATA_EPOCHS = 2
"""A wrong order often shows in the second epoch only."""
DATA_LIMIT_S = 120.0
GLANCE_S = 10.0
"""Instead, where the plan leaves the loader as it is: epochs may be long, or never end."""
UNSTEADY = 10.0
"""How many times what rounding may cause a naive training may differ from itself, as sums of no
fixed order do on a GPU, and still be compared with."""
RESUME_STEPS = 100
LOSS_ROUNDING = 1e-6
"""Relative: the last digits of an fp32 loss."""
RATE_ROUNDING = 2.0**-23


def check_of(rung: Rung, verdict: Verdict, why: str) -> Check:
    return Check(name="bitwise" if rung is Rung.BITWISE else "rounding", verdict=verdict, why=why)


def check_start(naive: dict[str, str], plan: dict[str, str]) -> Check:
    """Both sides begin from the same bits."""
    unequal = _unequal(naive, plan)
    if unequal:
        why = f"{unequal[0]} differs before the first step ({len(unequal)} in all)"
        return Check(name="start", verdict="refuted", why=why)
    return Check(name="start", verdict="proven", why=f"{len(naive)} digests equal before step 1")


def _unequal(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """Of digests by name, those that are not the same; what one side alone has is none."""
    return sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))


def check_data_digests(
    naive: messages.DataDigested, plan: messages.DataDigested, *, in_full: bool = True
) -> Check:
    """The same batches in the same order, and the random generators moved alike. Unless it is to
    be ``in_full``, what there was time for is enough: a plan that leaves the loader alone."""
    pairs = zip(naive.batches, plan.batches, strict=False)
    first = next((i for i, (one, other) in enumerate(pairs) if one != other), None)
    if first is not None:
        return Check(name="data", verdict="refuted", why=f"batch {first} is another one")
    if not (naive.complete and plan.complete):
        seen = min(len(naive.batches), len(plan.batches))
        if not in_full and seen:
            why = f"the first {seen} batches equal to the bit; the plan leaves the loader as it is"
            return Check(name="data", verdict="proven", why=why)
        why = f"only {seen} batches could be compared in the time there was"
        return Check(name="data", verdict="not_proven", why=why)
    if len(naive.batches) != len(plan.batches):
        why = f"{len(plan.batches)} batches in {DATA_EPOCHS} epochs, not {len(naive.batches)}"
        return Check(name="data", verdict="refuted", why=why)
    if naive.after != plan.after:
        why = "the random generators stand elsewhere after the epochs"
        return Check(name="data", verdict="refuted", why=why)
    why = f"{len(naive.batches)} batches of {DATA_EPOCHS} epochs equal to the bit"
    return Check(name="data", verdict="proven", why=why)


def stops_to_prove(batches_per_epoch: int | None) -> list[int]:
    """After how many steps: in the midst, and before and behind the last batch of the first epoch,
    which may be smaller than the others."""
    stops = {RESUME_STEPS // 2}
    if batches_per_epoch is not None:
        stops |= {batches_per_epoch - 1, batches_per_epoch}
    return sorted(each for each in stops if 0 < each < RESUME_STEPS)


def check_resuming(
    stops: list[int],
    whole: messages.Trained,
    parts: list[messages.Trained],
    again: messages.Trained,
) -> Check:
    """``again`` is the whole once more, which tells a wrong checkpoint from a restless training."""
    where = ", ".join(map(str, stops[:-1])) + (" and " if stops[:-1] else "") + str(stops[-1])
    applied = [each for one in (whole, *parts) for each in one.applied]
    lost = [each for each in applied if each.outcome != "done"]
    if lost:
        why = f"in the proof, {lost[0].technique} {lost[0].outcome.replace('_', ' ')}"
        return Check(name="resume", verdict="not_proven", why=f"{why}: {lost[0].why}")
    state = parts[-1].state
    if state == whole.state:
        why = f"{RESUME_STEPS} steps with a stop after {where} equal {RESUME_STEPS}, to the bit"
        return Check(name="resume", verdict="proven", why=why)
    if again.state != whole.state:
        why = "the training does not repeat itself to the bit, stopped or not"
        return Check(name="resume", verdict="not_proven", why=why)
    unequal = _unequal(whole.state, state)[0]
    why = f"{unequal} is another after {RESUME_STEPS} steps with a stop after {where}"
    return Check(name="resume", verdict="refuted", why=why)


def check_repeating(naive: messages.BaselineTraced) -> Check | None:
    """What speaks against any claim to every bit, whatever the plan; None for nothing."""
    if naive.repeats:
        return None
    why = "the naive training does not repeat itself to the bit, so nothing can equal it"
    return check_of(Rung.BITWISE, "not_proven", why)


def check_bitwise(
    naive: messages.BaselineTraced, plan: messages.CandidateTraced, draws: bool = False
) -> Check:
    """Losses, gradients and updates of each step, and the whole state after the last."""
    if (restless := check_repeating(naive)) is not None:
        return restless
    if plan.did_not_run:
        return check_of(Rung.BITWISE, "not_proven", f"in the proof, {plan.did_not_run[0]}")
    other = _another_course(naive, plan)
    if other:
        return check_of(Rung.BITWISE, "refuted", other)
    if plan.first_unequal:
        return check_of(Rung.BITWISE, "refuted", f"{plan.first_unequal} differs")
    unequal = _unequal(naive.end, plan.end)
    if unequal:
        return check_of(Rung.BITWISE, "refuted", f"{unequal[0]} differs after the steps")
    why = f"{_steps(naive)}, and the state after them, equal to the bit"
    if draws:
        why += "; same random numbers"
    return check_of(Rung.BITWISE, "proven", why)


def check_rounding(
    naive: messages.BaselineTraced, plan: messages.CandidateTraced, draws: bool
) -> Check:
    """Within twice what a perturbation of 1e-5 of the naive weights causes (stats.yardstick)."""
    if plan.did_not_run:
        return check_of(Rung.ROUNDING, "not_proven", f"in the proof, {plan.did_not_run[0]}")
    other = _another_course(naive, plan)
    if other:
        return check_of(Rung.ROUNDING, "refuted", other)
    if _unsteadiness(naive) > UNSTEADY:
        why = "the naive training differs from itself by more than rounding"
        return check_of(Rung.ROUNDING, "not_proven", why)
    shares = {key: _excess(naive, plan, key) for key in naive.quantities}
    worst = max(shares, key=lambda key: shares[key].share)
    loss = _loss_excess(naive, plan)
    largest = max(shares[worst].share, loss)
    verdict: Verdict = "proven" if largest <= 1.0 else "refuted"
    where = (
        f"{worst}: {shares[worst].parameter}"
        if shares[worst].share >= loss
        else "most in the losses"
    )
    why = f"differs by {_times(largest)} what rounding may cause, over {_steps(naive)} ({where})"
    excused = {name for each in shares.values() for name in each.excused}
    if excused and verdict == "proven":
        differ = "1 parameter differs" if len(excused) == 1 else f"{len(excused)} parameters differ"
        why += f"; {differ} by more, nearer to fp64 than the naive training"
    if not naive.repeats:
        why += "; the naive training does not repeat itself to the bit"
    if draws:
        why += "; dropout was off"
    return check_of(Rung.ROUNDING, verdict, why)


def _excess(naive: messages.BaselineTraced, plan: messages.CandidateTraced, key: str) -> Excess:
    base = naive.quantities[key]
    return excess(
        Norms(
            size=base.size,
            sensitivity=base.sensitivity,
            resolution=base.resolution,
            difference=plan.quantities[key].norms,
            epsilon=naive.epsilon,
            baseline_error=base.fp64_error,
            candidate_error=plan.quantities[key].fp64_error,
        )
    )


def _unsteadiness(naive: messages.BaselineTraced) -> float:
    """Against rounding alone: what does not repeat itself has unsteady perturbations too.

    Not of updates: Adam makes a whole one of a gradient that is nothing but rounding.
    """
    return max(
        excess(
            Norms(
                size=base.size,
                sensitivity=dict.fromkeys(base.size, 0.0),
                resolution=base.resolution,
                difference=base.unsteadiness,
                epsilon=naive.epsilon,
            )
        ).share
        for key, base in naive.quantities.items()
        if not key.startswith("updates")
    )


def _loss_excess(naive: messages.BaselineTraced, plan: messages.CandidateTraced) -> float:
    rows = zip(naive.losses, plan.losses, naive.loss_sensitivity, strict=True)
    shares = [
        abs(one - other) / max(ALLOWED * moved + LOSS_ROUNDING * abs(one), 1e-300)
        for one, other, moved in rows
    ]
    return max((share if share == share else float("inf") for share in shares), default=0.0)


def _times(share: float) -> str:
    if share >= 10:
        return f"{share:,.0f} times"
    return f"{100 * share:.0f} % of" if share >= 0.1 else f"{100 * share:.2g} % of"


def _steps(naive: messages.BaselineTraced) -> str:
    edge = "across the end of an epoch" if naive.epoch else "within one epoch"
    return f"{len(naive.steps)} steps {edge}"


def _another_course(naive: messages.BaselineTraced, plan: messages.CandidateTraced) -> str | None:
    """What no rounding explains: other epochs, other gradients, another schedule."""
    if plan.epoch != naive.epoch:
        return f"an epoch has {plan.epoch} batches, not {naive.epoch}"
    if plan.missing:
        return f"{plan.missing[0]} has a gradient on one side only ({len(plan.missing)} in all)"
    for number, (one, other) in enumerate(zip(naive.schedule, plan.schedule, strict=True), 1):
        if len(one) != len(other) or not all(map(_same_rate, one, other)):
            return f"the learning rates or their schedule differ after step {number}"
    return None


def _same_rate(one: float, other: float) -> bool:
    """A captured step holds its rate in fp32."""
    return one == other or abs(one - other) <= RATE_ROUNDING * abs(one)
