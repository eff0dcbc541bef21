"""What some steps ask of a CUDA device: kernels, waits of the host, memory."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

STEPS = 10


def count_on_device(step: Callable[[], Any]) -> dict[str, float]:
    """Per step, but for the peak, which is what the steps add to what was allocated before."""
    return {
        "kernels_per_step": _count_kernels(step) / STEPS,
        "host_waits_per_step": _count_host_waits(step) / STEPS,
        "peak_added_bytes": _peak_added(step),
    }


def _repeat(step: Callable[[], Any]) -> None:
    for _ in range(STEPS):
        step()


def _count_kernels(step: Callable[[], Any]) -> int:
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        _repeat(step)
        torch.cuda.synchronize()
    # Copies and fills are launched as kernels are; a named range, such as an optimizer's, is not.
    return sum(
        event.device_type == DeviceType.CUDA and not getattr(event, "is_user_annotation", False)
        for event in profiler.events() or ()
    )


def _count_host_waits(step: Callable[[], Any]) -> int:
    """As far as torch knows of them: what a library waits for by itself is not seen."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            _repeat(step)
        finally:
            torch.cuda.set_sync_debug_mode(before)
    return sum("called a synchronizing" in str(each.message) for each in caught)


def _peak_added(step: Callable[[], Any]) -> int:
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    _repeat(step)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before
