"""What torch's allocators gave out and took back, read from a profile of some steps."""

from collections.abc import Iterator
from typing import Any

import msgspec
import torch
from torch._C._profiler import _EventType
from torch.profiler import profile

from hasten.measure.lines import LineNotes, Note
from hasten.measure.ranges import PARTS

AUTOGRAD = "autograd::engine"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A block given out, or taken back where ``size`` is negative."""

    address: int
    size: int
    part: str
    """Of the step, as its ranges are named; empty outside of all of them."""
    note: Note | None


def changes_since(
    profiled: profile, mark: str, device: torch.device, notes: LineNotes
) -> tuple[list[Change], list[Change]]:
    """In order: those before the range named ``mark`` began, and those since."""
    events = list(_walk(_tree(profiled)))
    began = next(each.start_time_ns for each in events if each.name == mark)
    found = [each for each in events if _is_of(each, device)]
    found.sort(key=lambda each: each.start_time_ns)
    before = [_change(each, notes) for each in found if each.start_time_ns < began]
    since = [_change(each, notes) for each in found if each.start_time_ns >= began]
    return before, since


def _tree(profiled: profile) -> list[Any]:
    results: Any = profiled.profiler.kineto_results  # type: ignore[union-attr]
    return list(results.experimental_event_tree())


def _walk(events: list[Any]) -> Iterator[Any]:
    todo = list(events)
    while todo:
        event = todo.pop()
        yield event
        todo.extend(event.children)


def _is_of(event: Any, device: torch.device) -> bool:
    kind, fields = event.typed
    return bool(kind == _EventType.Allocation and fields.device.type == device.type)


def _change(event: Any, notes: LineNotes) -> Change:
    _, fields = event.typed
    part, note, above = "", None, event.parent
    while above is not None and not part:
        note = note or notes.find(above.name)
        if above.name in PARTS.values():
            part = above.name
        elif above.name.startswith(AUTOGRAD):
            part = "backward"
        above = above.parent
    return Change(address=fields.ptr, size=fields.alloc_size, part=part, note=note)
