"""Small pieces of text that all reports share."""

from collections.abc import Mapping

from hasten.records.measurement import Memory


def printable(text: str) -> str:
    """Names come from users' files: control characters would drive the terminal."""
    return "".join(each if each.isprintable() else "?" for each in text)


def printable_lines(text: str) -> str:
    """The same of several lines, such as a traceback; tabs stay too."""
    return "".join(each if each in "\n\t" else printable(each) for each in text)


def duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{1e6 * seconds:.0f} us"
    if seconds < 1:
        return f"{1e3 * seconds:.1f} ms"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


WIDEST = 100.0
"""Times its lower end: the figures of a wider interval tell nothing of what was measured."""


def interval(low: float, high: float, digits: int = 2) -> str:
    if is_too_wide(low, high):
        return "too wide to tell"
    return f"{low:.{digits}f}x to {high:.{digits}f}x"


def is_too_wide(low: float, high: float) -> bool:
    return high > WIDEST * low


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.{int(unit != 'B' and count < 10)}f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def rate(value: float) -> str:
    """Three digits and the prefix of the unit that follows, such as "1.25 T"."""
    for prefix in ("", "k", "M", "G", "T"):
        if value < 1000:
            return f"{value:.3g} {prefix}"
        value /= 1000
    return f"{value:.3g} P"


def peak_memory(memory: Memory) -> str:
    if memory.device_allocated_bytes is not None:
        return f"{size(memory.device_allocated_bytes)} on the device"
    if memory.host_bytes is not None:
        return f"{size(memory.host_bytes)} of the process"
    return "not measured"


def number(value: float | None) -> str:
    """Of any size, in a few characters; a dash where there is none."""
    return "-" if value is None else f"{value:.4g}"


def metrics_in_words(metrics: Mapping[str, float | None]) -> str:
    """Names may have spaces in them."""
    return ", ".join(f"{printable(name)}={number(value)}" for name, value in metrics.items())


def clock(seconds: float) -> str:
    """Minutes and seconds, as a clock shows them, and hours where there are any."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
