"""Findings and offers become candidates: pure."""

from collections.abc import Container, Sequence

from hasten.measure.compare import SMALL
from hasten.records.finding import Finding
from hasten.records.plan import NAIVE, Plan, RawPart, Rung
from hasten.records.trial import Candidate, Offer, Outcome, Trial


def propose(
    findings: Sequence[Finding],
    offers: Sequence[Offer],
    noise_floor: float,
    plan: Plan = NAIVE,
) -> tuple[list[Candidate], list[Trial]]:
    """What to try on top of ``plan``, and what is not tried, with the reason.

    What makes processes alike comes first, since all that is timed before it is luck in part. What
    is slow to prepare comes behind what is not, but before what could gain little. Else the
    findings decide, in their order, and of the answers to one the safest come first, and of these
    those that leave others nothing to do.
    """
    answers = [
        (offer, finding, part)
        for finding in sorted(findings, key=lambda each: each.bound <= noise_floor)
        for offer in sorted(offers, key=_order)
        if finding.code in offer.answers
        for part in offer.parts or ({},)
        if plan.parts.get(offer.technique) != part
    ]
    answers.sort(key=lambda answer: _turn(answer[0], answer[1]))
    candidates: dict[str, Candidate] = {}
    not_tried: dict[str, Trial] = {}
    for offer, finding, part in answers:
        brought = _brought(offer, offers, plan)
        candidate = _candidate(offer, part, finding.code, finding.bound, brought, plan)
        key = candidate.key()
        if key in candidates or key in not_tried:
            continue  # it answers two findings; one trial is enough, for the first of them
        outcome, why = _reason_against(offer, candidate, offers, plan, noise_floor)
        if outcome is None:
            candidates[key] = candidate
        else:
            not_tried[key] = Trial(candidate=candidate, on=plan, outcome=outcome, why=why)
    return list(candidates.values()), list(not_tried.values())


def _turn(offer: Offer, finding: Finding) -> tuple[bool, bool, bool]:
    return finding.bound < SMALL, not offer.steadies, offer.slow_to_prepare


def _order(offer: Offer) -> tuple[int, int]:
    return offer.rung.depth(), -len(offer.instead_of)


def lighter(
    candidate: Candidate, without: Container[str], offers: Sequence[Offer], plan: Plan
) -> Candidate:
    """The same change, with less of what it brings."""
    known = {each.technique: each for each in offers}
    brought = [known[name] for name in candidate.along if name not in without]
    offer = known[candidate.technique]
    return _candidate(offer, candidate.part, candidate.finding, candidate.bound, brought, plan)


def _brought(offer: Offer, offers: Sequence[Offer], plan: Plan) -> list[Offer]:
    if offer.refusal is not None:
        return []
    return [
        each
        for each in offers
        if each.technique in offer.brings and each.parts and each.technique not in plan.parts
    ]


def _candidate(
    offer: Offer, part: RawPart, finding: str, bound: float, brought: Sequence[Offer], plan: Plan
) -> Candidate:
    return Candidate(
        technique=offer.technique,
        part=part,
        rung=Rung.deepest([offer.rung, *(each.rung for each in brought)]),
        finding=finding,
        bound=bound,
        along={each.technique: each.parts[0] for each in brought},
        replaces=tuple(
            name for each in (offer, *brought) for name in each.instead_of if name in plan.parts
        ),
    )


def _reason_against(
    offer: Offer, candidate: Candidate, offers: Sequence[Offer], plan: Plan, noise_floor: float
) -> tuple[Outcome | None, str]:
    if offer.refusal is not None:
        return "not_tried", offer.refusal
    if offer.rung is Rung.CHANGES_TRAINING:
        return "not_tried", "it changes the training, and that was not allowed"
    if not offer.parts:
        return "not_tried", offer.untried
    known = {each.technique: each for each in offers}
    for name in plan.parts:
        if name in known and offer.technique in known[name].instead_of:
            return "not_tried", f"{name} leaves it nothing to do"
    together = candidate.plan_on(plan)
    for name, part in together.parts.items():
        for conflict in known[name].conflicts if name in known else ():
            if conflict.holds(part, together):
                return "not_tried", f"{name} beside {conflict.beside}: {conflict.why}"
    if candidate.bound <= noise_floor:
        most = f"could gain {candidate.bound:.3f}x at most"
        return "below_noise", f"{most}, and noise here is {noise_floor:.3f}x"
    return None, ""
