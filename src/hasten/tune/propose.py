"""Findings and offers become candidates: pure."""

from collections.abc import Sequence

from hasten.records.finding import Finding
from hasten.records.plan import Rung
from hasten.records.trial import Candidate, Offer, Trial


def propose(
    findings: Sequence[Finding], offers: Sequence[Offer], noise_floor: float
) -> tuple[list[Candidate], list[Trial]]:
    """What to try, cheap and safe first; and what is not tried, with the reason."""
    pairs = [
        (offer, finding, part)
        for finding in findings
        for offer in offers
        if finding.code in offer.answers
        for part in offer.parts or ({},)
    ]
    pairs.sort(key=lambda pair: (pair[0].slow_to_prepare, pair[0].rung.depth(), -pair[1].bound))
    candidates, not_tried, seen = [], [], set()
    for offer, finding, part in pairs:
        key = (offer.technique, tuple(sorted(part.items(), key=str)).__repr__())
        if key in seen:
            continue  # it answers two findings; one trial is enough
        seen.add(key)
        candidate = Candidate(
            technique=offer.technique,
            part=part,
            rung=offer.rung,
            finding=finding.code,
            bound=finding.bound,
            changes_data=offer.changes_data,
        )
        reason = _reason_against(offer)
        if reason is not None:
            not_tried.append(Trial(candidate=candidate, outcome="not_tried", why=reason))
        elif finding.bound <= noise_floor:
            why = f"could gain {finding.bound:.3f}x at most, and noise here is {noise_floor:.3f}x"
            not_tried.append(Trial(candidate=candidate, outcome="below_noise", why=why))
        else:
            candidates.append(candidate)
    return candidates, not_tried


def _reason_against(offer: Offer) -> str | None:
    if offer.refusal is not None:
        return offer.refusal
    if offer.rung in (Rung.PARITY, Rung.CHANGES_TRAINING):
        return f"it is on the {offer.rung.replace('_', ' ')} rung, which tune does not prove"
    if not offer.parts:
        return "it has no setting worth a trial here"
    return None
