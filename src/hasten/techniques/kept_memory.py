"""Let the C library keep the memory of a step for the next one."""

import ctypes
import os
import platform
import sys

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.task.pipeline import Pipeline
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""As malloc.h numbers them: how much memory may lie free at the end of the heap before it is given
back, and from which size on an allocation is a mapping of its own, which is given back at once."""
ALL = -1
"""Of what lies free there."""
LARGEST = 32 << 20
"""That glibc takes from its heap, if it is told to."""
USUAL = 128 << 10
"""What glibc begins with, for both."""
SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")


class KeptMemoryPart(Part, frozen=True, kw_only=True):
    pass


class KeptMemoryTechnique(Technique[KeptMemoryPart]):
    name = "kept_memory"
    part = KeptMemoryPart
    stage = Stage.LAYOUT
    rung = Rung.BITWISE
    answers = ("page-faults",)
    about = "Lets the C library keep the memory that tensors give back, for those of the next step."
    helps = (
        "Training on the CPU with activations of 128 KiB to 32 MiB. glibc gives much of their "
        "memory back to the kernel in each step, or little of it, as its heap happens to lie; the "
        "kernel then clears it page by page for the next step."
    )
    costs = "The process keeps the peak of its memory; other programs get none of it back."
    limits = (
        "A setting of the whole process. Undone, glibc has the thresholds that it begins with, and "
        "no longer adapts them."
    )
    needs = "Training on the CPU, under Linux with glibc."
    steadies = True  # heaps
    reserved_for = "asked"

    def unavailable(self, environment: Environment) -> str | None:
        return _unable(environment.device.kind)

    def to_try(self, environment: Environment, traits: Traits) -> list[KeptMemoryPart]:
        return [KeptMemoryPart()]

    def apply(self, pipeline: Pipeline, part: KeptMemoryPart) -> Effect:
        reason = _unable(pipeline.device.type)
        if reason:
            raise CannotApply(reason)
        _set(ALL, LARGEST)

        def undo() -> None:
            _set(USUAL, USUAL)
            ctypes.CDLL(None).malloc_trim(0)

        return Effect(why=f"allocations up to {LARGEST >> 20} MiB are kept by glibc", undo=undo)


def _unable(device: str) -> str | None:
    if device != "cpu":
        return "the training is not on the CPU"
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return "the C library is not glibc"
    chosen = [each for each in SETTINGS if each in os.environ]
    if "malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        chosen.append("GLIBC_TUNABLES")
    if "malloc" in os.environ.get("LD_PRELOAD", ""):
        chosen.append("LD_PRELOAD")
    return f"the environment has chosen already ({chosen[0]})" if chosen else None


def _set(most_free: int, largest: int) -> None:
    library = ctypes.CDLL(None)
    if not library.mallopt(MMAP_THRESHOLD, largest):
        raise CannotApply(f"glibc takes no allocation of {largest >> 20} MiB from its heap")
    library.mallopt(TRIM_THRESHOLD, most_free)  # which takes any
