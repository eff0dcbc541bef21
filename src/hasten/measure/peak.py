"""Who holds the memory of tensors at the peak of a step, and which lines made them.

Method: torch's allocators tell the profiler of every block that they give out and take back, those
inside of an operation too. Two steps are followed and the last one counts, since what was alive
before may be taken back without a word in the first. A block belongs to the
parameters, the gradients or the optimizer if one of their tensors lies in it, and to the
activations if the forward pass made it and did not take it back itself. The steps are steps of the
training, to the bit.

Limits: on a CPU the data and the model's copies elsewhere are not counted, only the training's own
tensors and what a step allocates. Memory that a library takes by other means than torch's
allocators is not seen, nor what a captured graph keeps in a pool of its own.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
import torch
from torch import Tensor
from torch._C._profiler import _RecordFunctionFast as Range
from torch.profiler import ProfilerActivity, profile
from torch.utils import _pytree as pytree

from hasten.measure.allocations import Change, changes_since
from hasten.measure.frames import Line
from hasten.measure.lines import LineNotes
from hasten.measure.ranges import ranges
from hasten.records.profile import Allocation, PeakMemory
from hasten.runtime.run import Run
from hasten.task import batch as batches
from hasten.task.pipeline import Pipeline

Holder = Literal["parameters", "gradients", "optimizer", "activations", "other"]
EARLIER, MEASURED = "hasten earlier step", "hasten measured step"
LARGEST = 5
SMALLEST_SHARE = 0.01
"""Of the peak: lines that hold less are not worth a look."""
CUDA_GRAIN = 512
"""CUDA's allocator gives out multiples of it."""
UNKNOWN = 0
"""The address that stands for all that was there before and that nobody knows."""
DOING = {
    "": "the step",
    "transfer": "the batch on the device",
    "forward": "the forward pass",
    "backward": "the backward pass",
    "optimizer": "the update of the weights",
}


class Block(msgspec.Struct, kw_only=True):
    size: int
    made: Change | None = None
    """None of what was there before."""
    holder: Holder = "other"
    kept: bool = True
    """Whether it outlived the part of the step that made it."""


Live = dict[int, Block]


def measure_peak(run: Run, source: Iterator[Any]) -> PeakMemory:
    """Of a run that is warm: optimizers make their state in the first step."""
    *earlier, last = _to_follow(source)
    device, notes = run.pipeline.device, LineNotes()
    cpu = [ProfilerActivity.CPU]
    with profile(activities=cpu, profile_memory=True) as profiled, ranges(run, Range):
        while earlier:
            # What is taken back outside of all ranges, as a batch is at a step's end, is not told.
            with notes, Range(EARLIER):
                run.step(earlier.pop(0))
        before = _held(run.pipeline, last)
        total = torch.cuda.memory_allocated(device) if device.type == "cuda" else None
        with notes, Range(MEASURED):
            run.step(last)
        after = _held(run.pipeline, last)
    changes, counted = changes_since(profiled, MEASURED, device, notes)
    return peak_of(_live_after(changes, before, total), counted, after)


def _to_follow(source: Iterator[Any]) -> list[Any]:
    """Batches, of which the last is not smaller than the first, as the end of an epoch may be. They
    are loaded beforehand: a loader may fork, and not while all is being noted."""
    found = [next(source), next(source)]
    if batches.rows_in(found[1]) < batches.rows_in(found[0]):
        found.append(next(source))
    return found


def _held(pipeline: Pipeline, batch: Any) -> Live:
    """The tensors of a training that live between two steps, by where they lie."""
    device = pipeline.device
    trained = pipeline.trained()
    states = [optimizer.state for optimizer in pipeline.optimizers]
    rows = [] if isinstance(batch, batches.RowsOf) else batches.tensors_of(batch)
    loss = pipeline.loss_module
    buffers = [*pipeline.model.buffers(), *(loss.buffers() if loss is not None else ())]
    found: Live = {}
    holders: dict[Holder, Iterable[Any]] = {
        "parameters": trained,
        "gradients": [each.grad for each in trained],
        "optimizer": pytree.tree_leaves([list(state.values()) for state in states]),
        "other": [*buffers, *rows],
    }
    for holder, tensors in holders.items():
        for tensor in tensors:
            if isinstance(tensor, Tensor) and tensor.device == device:
                storage = tensor.untyped_storage()
                size = _in_grains(storage.nbytes(), device)
                found.setdefault(storage.data_ptr(), Block(size=size, holder=holder))
    return found


def _in_grains(size: int, device: torch.device) -> int:
    return -(-size // CUDA_GRAIN) * CUDA_GRAIN if device.type == "cuda" else size


def _live_after(earlier: list[Change], held: Live, total: int | None) -> Live:
    """All that is alive as the step begins; what nobody knows is one block of its own."""
    live: Live = {}
    for change in earlier:
        _follow(live, change)
    _mark(live, held)
    if total is not None:
        live[UNKNOWN] = Block(size=total - sum(block.size for block in live.values()))
    return live


def _mark(live: Live, held: Live) -> None:
    for address, block in held.items():
        live.setdefault(address, block).holder = block.holder


def _follow(live: Live, change: Change) -> None:
    taken = live.pop(change.address, None)
    if change.size > 0:
        live[change.address] = Block(size=change.size, made=change)
    elif taken is not None and taken.made is not None:
        taken.kept = change.part != taken.made.part
    elif taken is None and UNKNOWN in live:
        live[UNKNOWN].size += change.size


def peak_of(live: Live, changes: list[Change], after: Live) -> PeakMemory:
    """Of the step that begins with ``live`` and at whose end ``after`` is held."""
    highest = _highest(live, changes)
    for change in changes[:highest]:
        _follow(live, change)
    at_peak = [(block, block.size) for block in live.values()]
    for change in changes[highest:]:  # which tell what became of them
        _follow(live, change)
    for address in live.keys() & after.keys():
        live[address].holder = after[address].holder
    sizes: Counter[Holder] = Counter()
    for block, size in at_peak:
        sizes[_holder(block)] += size
    return PeakMemory(
        peak_bytes=sizes.total(),
        parameters_bytes=sizes["parameters"],
        gradients_bytes=sizes["gradients"],
        optimizer_bytes=sizes["optimizer"],
        activations_bytes=sizes["activations"],
        other_bytes=sizes["other"],
        largest=_largest(at_peak),
    )


def _highest(live: Live, changes: list[Change]) -> int:
    """After how many changes the most is held."""
    sizes = {address: block.size for address, block in live.items()}
    now = most = sum(sizes.values())
    found = 0
    for count, change in enumerate(changes, 1):
        known = sizes.pop(change.address, None)
        if change.size > 0:
            now += change.size - (known or 0)
            sizes[change.address] = change.size
        elif known is not None or UNKNOWN in sizes:
            now += change.size if known is None else -known
        if now > most:
            most, found = now, count
    return found


def _holder(block: Block) -> Holder:
    made = block.made
    if block.holder != "other" or made is None:
        return block.holder
    again = made.note is not None and made.note.recomputed
    return "activations" if again or (made.part == "forward" and block.kept) else "other"


def _largest(at_peak: list[tuple[Block, int]]) -> tuple[Allocation, ...]:
    sizes: Counter[Line | str] = Counter()
    for block, size in at_peak:
        if _holder(block) in ("activations", "other"):
            sizes[_maker(block.made)] += size
    least = SMALLEST_SHARE * sum(size for _, size in at_peak)
    most = sizes.most_common(LARGEST)
    return tuple(_allocation(maker, size) for maker, size in most if size > least)


def _maker(made: Change | None) -> Line | str:
    if made is None:
        return "what was there before the step, such as buffers and the batch"
    line = made.note.line if made.note is not None else None
    return line or DOING[made.part]


def _allocation(maker: Line | str, size: int) -> Allocation:
    if isinstance(maker, str):
        return Allocation(place=None, code=maker, held_bytes=size)
    return Allocation(place=maker.place, code=maker.code, held_bytes=size)
