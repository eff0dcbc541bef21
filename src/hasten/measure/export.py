"""A few steps as a trace that Perfetto and TensorBoard's profiler plugin open.

The parts of a step are named ranges in it. Shapes and stacks are left out: they make a trace large,
and what it shows slow.
"""

import gzip
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile, record_function, schedule

from hasten.errors import HastenError
from hasten.host.files import write_atomically
from hasten.measure.ranges import DATA, ranges
from hasten.runtime.run import Run

STEPS = 3
MOST_BYTES = 200_000_000
"""Of the trace as it is read; browsers do not open much more."""


def export_trace(run: Run, source: Iterator[Any], path: Path) -> int:
    """Write a trace of some steps of a run that is warm, packed where the name ends in ``.gz``.
    Where that would be too large, of one step. Returns how many it shows."""
    for steps in (STEPS, 1):
        content = _trace(run, source, steps)
        if len(content) <= MOST_BYTES:
            packed = gzip.compress(content) if path.suffix == ".gz" else content
            write_atomically(path, packed)
            return steps
    raise HastenError(
        f"A trace of one step has {len(content):,} bytes, more than a browser opens.",
        fix="Profile a smaller model, or without --trace.",
    )


def _trace(run: Run, source: Iterator[Any], steps: int) -> bytes:
    activities = [ProfilerActivity.CPU]
    if run.pipeline.device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    following = schedule(wait=0, warmup=1, active=steps, repeat=1)
    with (
        profile(activities=activities, schedule=following, acc_events=True) as profiled,
        ranges(run, record_function),
    ):
        for _ in range(1 + steps):
            with record_function(DATA):
                batch = next(source)
            run.step(batch)
            profiled.step()
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        whole = Path(folder) / "trace.json"
        profiled.export_chrome_trace(str(whole))
        return whole.read_bytes()
