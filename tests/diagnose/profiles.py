"""Profiles made by hand, in milliseconds of a step."""

from typing import Any

import msgspec

from hasten.diagnose.diagnose import diagnose
from hasten.records.environment import Device
from hasten.records.finding import Finding, Place
from hasten.records.measurement import Measurement, Memory, Phases
from hasten.records.profile import (
    Bound,
    Ceilings,
    Diagnosis,
    Launches,
    ProfileParts,
    SyncSite,
    Work,
)
from hasten.records.traits import ModelTraits

TASK = Place(path="train.py", line=3)
MODEL = Place(path="model.py", line=7)
CPU = Device(kind="cpu", name="Some CPU", count=1, memory_bytes=8 << 30)
GPU = Device(kind="cuda", name="Some GPU", count=1, memory_bytes=80 << 30, capability=(9, 0))
NET = ModelTraits(
    name="Net", parameters=1, parameter_bytes=4, families=("linear",), repeated_blocks=()
)
LSTM = msgspec.structs.replace(NET, families=("linear", "recurrent"))
CEILINGS = Ceilings(
    flops_per_s={"fp32": 5e13, "tf32": 4e14, "bf16": 8e14}, bytes_per_s=4e12, launch_s=5e-6
)


def phases(**milliseconds: float) -> Phases:
    names = (name for name in Phases.__struct_fields__)
    return Phases(**{name: milliseconds.pop(name[:-2], 0.0) / 1e3 for name in names})


def measured(*steps: Phases, memory: Memory | None = None) -> Measurement:
    return Measurement(
        steps=steps,
        rows=(64,) * len(steps),
        losses=(0.5,) * len(steps),
        first_step_s=1.0,
        memory=memory or Memory(),
    )


def launches(per_step: float, device: float, step: float) -> Launches:
    return Launches(per_step=per_step, device_s=device / 1e3, step_s=step / 1e3, slowest={})


def work(share: float, moved_share: float = 0.0, computed_in: str = "fp32") -> Work:
    return Work(
        flops=1e9,
        flops_per_s=1e12,
        computed_in=computed_in,
        share=share,
        fastest="bf16",
        moved_bytes=1e6,
        moved_share=moved_share,
    )


def bound(without: Any, ratio: float) -> Bound:
    return Bound(without=without, ratio=ratio, low=0.98 * ratio, high=1.02 * ratio, how="measured")


def site(cost: float, line: int = 9) -> SyncSite:
    return SyncSite(
        place=Place(path="loop.py", line=line),
        kind="item",
        code="loss.item()",
        per_step=1.0,
        cost_s=cost / 1e3,
    )


def parts(*steps: Phases, memory: Memory | None = None, **rest: Any) -> ProfileParts:
    return ProfileParts(measurement=measured(*steps, memory=memory), **rest)


def diagnosed(
    given: ProfileParts,
    model: ModelTraits = NET,
    device: Device = CPU,
    model_place: Place | None = MODEL,
) -> Diagnosis:
    return diagnose(given, model, device, task_place=TASK, model_place=model_place)


def codes(found: Diagnosis) -> dict[str, Finding]:
    return {finding.code: finding for finding in found.findings}
