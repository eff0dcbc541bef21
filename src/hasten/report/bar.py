"""The one line of a training on a terminal, as wide as there is room for."""

from rich.text import Text

from hasten.records.measurement import Memory
from hasten.records.training import StepEvent
from hasten.report.text import clock, number, size

SMALLEST_BAR, LARGEST_BAR = 5, 40
LEFT_OUT = ("word", "memory", "wait", "rows", "left", "loss")
"""Least important first: what a narrow terminal goes without. The counter stays."""
GAP = "  "


def bar_line(
    step: int,
    total: int | None,
    last: StepEvent | None,
    left_s: float | None,
    *,
    width: int,
    plain: bool,
) -> Text:
    """``plain`` is for terminals without colour, where a bar and its rest would look the same."""
    pieces = {"word": "step ", "counter": counter(step, total)}
    pieces |= figures(last) if last is not None else {}
    if left_s is not None:
        pieces["left"] = f"{clock(left_s)} left"
    bar = 0 if total is None else SMALLEST_BAR + len(GAP)
    for name in LEFT_OUT:
        if len(_joined(pieces)) + bar <= width:
            break
        pieces.pop(name, None)
    line = Text(no_wrap=True, overflow="crop")
    if total is not None:
        _append_bar(line, step / max(total, 1), width - len(_joined(pieces)) - len(GAP), plain)
    return line.append(_joined(pieces))


def figures(event: StepEvent) -> dict[str, str]:
    """What an event of a step measured, in words, by name."""
    found = {
        "loss": f"loss {number(event.loss)}",
        "rows": f"{event.rows_per_s:,.0f} rows/s",
        "wait": f"wait {100 * event.data_wait:.0f} %",
    }
    used = _used(event.memory)
    return found if used is None else {**found, "memory": size(used)}


def counter(step: int, total: int | None) -> str:
    if total is None:
        return f"{step:,}"
    return f"{step:,}".rjust(len(f"{total:,}")) + f"/{total:,}"


def _used(memory: Memory) -> int | None:
    on_device = memory.device_allocated_bytes
    return on_device if on_device is not None else memory.host_bytes


def _joined(pieces: dict[str, str]) -> str:
    word = pieces.get("word", "")
    return word + GAP.join(text for name, text in pieces.items() if name != "word")


def _append_bar(line: Text, share: float, room: int, plain: bool) -> None:
    cells = min(LARGEST_BAR, room)
    if cells < SMALLEST_BAR:
        return
    done = min(cells, int(share * cells))
    line.append(("#" if plain else "━") * done, style="green")
    line.append(("-" if plain else "━") * (cells - done), style="bright_black")
    line.append(GAP)
