"""The arithmetic of a step against the ceilings of the machine."""

from hasten.errors import HastenError
from hasten.measure.messages import WorkCounted
from hasten.records.profile import Ceilings, Work


def work_of(counted: WorkCounted, ceilings: Ceilings, step_s: float) -> Work | None:
    """None where nothing is multiplied."""
    flops, rates = counted.flops, ceilings.flops_per_s
    unknown = set(flops) - set(rates)
    if unknown:
        raise HastenError(f"There is no ceiling for {', '.join(sorted(unknown))}.")
    if not flops:
        return None
    total = sum(flops.values())
    return Work(
        flops=total,
        flops_per_s=total / step_s,
        computed_in=max(flops, key=lambda name: flops[name]),
        share=sum(count / rates[name] for name, count in flops.items()) / step_s,
        fastest=max(rates, key=lambda name: rates[name]),
        moved_bytes=counted.moved_bytes,
        moved_share=counted.moved_bytes / ceilings.bytes_per_s / step_s,
    )
