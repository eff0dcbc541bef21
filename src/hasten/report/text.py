"""Small pieces of text that all reports share."""


def printable(text: str) -> str:
    """Names come from users' files: control characters would drive the terminal."""
    return "".join(each if each.isprintable() else "?" for each in text)


def duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{1e6 * seconds:.0f} us"
    if seconds < 1:
        return f"{1e3 * seconds:.1f} ms"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
