"""What each file comes to: from the cache, or looked at anew, in processes where there is much."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hasten.scan import pool
from hasten.scan.cache import Cache
from hasten.scan.reading import UnreadableError, matters, read
from hasten.scan.worker import Answer, Reader

ENOUGH_BYTES = 1_500_000
"""Of source that takes longer to look at than processes take to start."""

Tell = Callable[[int, int], None]
"""How many files are done, of how many that are new."""


@dataclass(frozen=True)
class Means:
    """What may be used to be done sooner."""

    cache: Cache
    processes: int = 1
    tell: Tell = lambda done, of: None


def gather(files: Sequence[Path], codes: Sequence[str], means: Means) -> dict[Path, Answer]:
    """In the order of the files, by the rules of these codes."""
    reader = Reader(codes)
    given: dict[Path, Answer] = {}
    new: list[tuple[Path, int]] = []
    for path in files:
        try:
            content = read(path)
        except UnreadableError as error:
            given[path] = Answer(failure=str(error))
            continue
        if not matters(content):
            given[path] = Answer()
            continue
        key = reader.key_of(content)
        known = means.cache.get(key)
        if known is None:
            new.append((path, len(content)))
        else:
            given[path] = Answer(key, known)
    for done, (path, each) in enumerate(_look_at(new, codes, reader, means.processes), 1):
        given[path] = each
        if each.analysis is not None:
            means.cache.put(each.key, each.analysis)
        means.tell(done, len(new))
    return {path: given[path] for path in files}


def _look_at(
    new: Sequence[tuple[Path, int]], codes: Sequence[str], reader: Reader, processes: int
) -> Iterator[tuple[Path, Answer]]:
    if processes > 1 and sum(size for _, size in new) >= ENOUGH_BYTES:
        return pool.answers(new, codes, processes)
    return ((path, reader.answer(path)) for path, _ in new)
