"""Why a step is slow."""

import msgspec

from hasten.diagnose.findings import find
from hasten.diagnose.limit import limit_of
from hasten.diagnose.shares import shares_of, without_syncs
from hasten.records.environment import Device
from hasten.records.finding import Finding, Place
from hasten.records.profile import Bound, Diagnosis, Limit, ProfileParts
from hasten.records.traits import ModelTraits

ANSWERED_BY: dict[Limit, tuple[str, ...]] = {
    "input-bound": ("data-wait", "transfer-bound"),
    "optimizer-bound": ("slow-optimizer",),
    "compute-bound": ("slow-precision", "compute-bound"),
}
"""Codes of the findings of a limit; those of the others are called as it is."""
MOST_ADVICE = 4


def diagnose(
    parts: ProfileParts,
    model: ModelTraits,
    device: Device,
    *,
    task_place: Place | None,
    model_place: Place | None,
) -> Diagnosis:
    """What binds the step, and findings with the largest bound first."""
    on_device = device.kind != "cpu"
    bounds = _with_syncs(parts, on_device=on_device)
    parts = msgspec.structs.replace(parts, bounds=bounds)
    shares = shares_of(parts, on_device=on_device)
    limit, why = limit_of(shares, model, parts.launches, parts.work)
    findings = find(parts, shares, model, device, task_place=task_place, model_place=model_place)
    return Diagnosis(
        limit=limit,
        why=why,
        next=_advice(limit, findings),
        bounds=bounds,
        findings=tuple(findings),
    )


def _with_syncs(parts: ProfileParts, *, on_device: bool) -> tuple[Bound, ...]:
    """On the CPU nobody waits: its places are those that would, on a device."""
    waited_s = sum(site.cost_s or 0.0 for site in parts.syncs)
    if not on_device or parts.launches is None or not waited_s:
        return parts.bounds
    step_s = parts.measurement.step_s()
    return (*parts.bounds, without_syncs(step_s, parts.launches.device_s, waited_s))


def _advice(limit: Limit, findings: list[Finding]) -> tuple[str, ...]:
    """That of the limit itself first."""
    own = ANSWERED_BY.get(limit, (limit,))
    first = [each for code in own for each in findings if each.code == code]
    ranked = first + [each for each in findings if each.code not in own]
    return tuple(dict.fromkeys(finding.advice for finding in ranked))[:MOST_ADVICE]
