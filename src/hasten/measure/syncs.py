"""Where the host waits for the device, or would if there were one: line by line of the user's code.

Method: some real steps are run while every call of a torch function is watched and timed. On CUDA
torch itself tells which of them waited; elsewhere the call and where its tensors are decide. What
is computed stays the same to the bit.

Compiled code has no lines to watch: it runs uncompiled meanwhile, with the rounding of that. A step
that is replayed as one graph runs no line of the user's, and none is found.

Limits: the loader and the transfer of batches are phases of their own, and not watched. Without
CUDA, waits in threads that the user's code starts are not seen, nor those inside of functions of
torch that ``waits.py`` does not name. Calls of ``synchronize`` are no waits for a value. A
``nn.TransformerEncoder`` in eval mode and without gradients leaves its fast path while it is
watched, and rounds otherwise.
"""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from hasten.measure.sync_watch import SyncWatch
from hasten.measure.whereabouts import OnAccelerator, Supposed, Whereabouts, tensors_in
from hasten.records.profile import SyncSite
from hasten.runtime.run import Run
from hasten.task import batch as batches
from hasten.task.pipeline import Pipeline


def find_syncs(run: Run, source: Iterator[Any], steps: int) -> tuple[SyncSite, ...]:
    """Of a run that is warm: its first step may compile, capture or try out what is applied."""
    device = run.pipeline.device.type
    where: Whereabouts = Supposed() if device == "cpu" else OnAccelerator()
    watch = SyncWatch(where, torch_tells=device == "cuda")
    for _ in range(steps):
        batch = next(source)
        # Rows of resident data are gathered within the step, which may be captured so.
        moved = batch if isinstance(batch, batches.RowsOf) else run.transfer(batch)
        where.mark(_held_by(run.pipeline))
        where.mark(_tensors_of(moved))
        with watch.watching():
            run.step(moved)
    return watch.sites(steps)


def _held_by(pipeline: Pipeline) -> Iterator[Tensor]:
    yield from pipeline.trained()
    for module in (pipeline.model, pipeline.loss_module):
        yield from module.buffers() if module is not None else ()
    yield from batches.tensors_of(pipeline.carried_state)
    for optimizer in pipeline.optimizers:
        for held in optimizer.state.values():
            # But for counters of steps, which torch keeps on the host.
            yield from (each for each in tensors_in(held) if each.dim())


def _tensors_of(batch: Any) -> list[Tensor]:
    if isinstance(batch, batches.RowsOf):
        return [*batch.tensors, batch.rows]
    return batches.tensors_of(batch)
