"""Why a step is slow."""

import msgspec

from hasten.diagnose.findings import find
from hasten.diagnose.limit import limit_of
from hasten.diagnose.shares import shares_of, without_syncs
from hasten.records.environment import Device
from hasten.records.finding import Place
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
    """What binds the step, and findings: those of what binds it first, and of the others those with
    the largest bound. Costs overlap: of a step that waits for launches the model takes much time
    too, and a faster kernel would gain nothing."""
    on_device = device.kind != "cpu"
    bounds = _with_syncs(parts, on_device=on_device)
    parts = msgspec.structs.replace(parts, bounds=bounds)
    shares = shares_of(parts, on_device=on_device)
    limit, why = limit_of(shares, model, parts.launches, parts.work)
    found = find(parts, shares, model, device, task_place=task_place, model_place=model_place)
    own = ANSWERED_BY.get(limit, (limit,))
    findings = [each for code in own for each in found if each.code == code]
    findings += [each for each in found if each.code not in own]
    return Diagnosis(
        limit=limit,
        why=why,
        next=tuple(dict.fromkeys(each.advice for each in findings))[:MOST_ADVICE],
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
