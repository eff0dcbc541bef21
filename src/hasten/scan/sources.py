"""Lines of files, for reports that show them."""

from functools import lru_cache
from pathlib import Path

from hasten.scan.lines import lines_of
from hasten.scan.reading import UnreadableError, decode, read


def source(path: str, first: int, last: int) -> list[str]:
    """None where the file cannot be read any more."""
    return _lines(path)[first - 1 : last]


@lru_cache(maxsize=64)
def _lines(path: str) -> list[str]:
    try:
        return lines_of(decode(read(Path(path))))
    except UnreadableError:
        return []
