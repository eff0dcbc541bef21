"""Files that are looked at in several processes: programs of our own, started anew, which import
neither torch nor the script that asks."""

import os
import selectors
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from hasten.scan.worker import Answer, receive, send

COMMAND = (sys.executable, "-m", "hasten.scan.worker")
CHUNK_BYTES = 400_000
"""Of source at once: many to share out evenly, few enough that asking costs nothing."""
KILLED = "the process that read it ended; please report this file"

Chunk = list[Path]


def answers(
    sized: Sequence[tuple[Path, int]], codes: Sequence[str], processes: int
) -> Iterator[tuple[Path, Answer]]:
    """Of files with their sizes, in any order. A file that ends its process is told as unreadable,
    and the others go on."""
    pool = _Pool(codes)
    waiting = deque(_chunks(sized))
    try:
        for _ in range(min(processes, len(waiting))):
            pool.start(waiting.popleft())
        while pool.is_busy:
            for chunk, given in pool.ready():
                if given is not None:
                    yield from zip(chunk, given, strict=True)
                elif len(chunk) == 1:
                    yield chunk[0], Answer(failure=KILLED)
                else:
                    waiting.extend([path] for path in chunk)
                if waiting:
                    pool.go_on(waiting.popleft())
    finally:
        pool.close()


def _chunks(sized: Sequence[tuple[Path, int]]) -> Iterator[Chunk]:
    """The largest files first, so that none is left for the end."""
    chunk: Chunk = []
    held = 0
    for path, size in sorted(sized, key=lambda each: -each[1]):
        chunk.append(path)
        held += size
        if held >= CHUNK_BYTES:
            yield chunk
            chunk, held = [], 0
    if chunk:
        yield chunk


class _Pool:
    def __init__(self, codes: Sequence[str]) -> None:
        self._codes = codes
        self._started: list[subprocess.Popen[bytes]] = []
        """All, since Ctrl-C may come while one is neither free nor busy."""
        self._free: list[subprocess.Popen[bytes]] = []
        self._busy: dict[subprocess.Popen[bytes], Chunk] = {}
        self._selector = selectors.DefaultSelector()

    @property
    def is_busy(self) -> bool:
        return bool(self._busy)

    def start(self, chunk: Chunk) -> None:
        worker = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for whoever started this
        )
        self._started.append(worker)
        self._ask(worker, list(self._codes))
        self._give(worker, chunk)

    def go_on(self, chunk: Chunk) -> None:
        """With a worker that has nothing to do, or a new one."""
        if self._free:
            self._give(self._free.pop(), chunk)
        else:
            self.start(chunk)

    def ready(self) -> Iterator[tuple[Chunk, list[Answer] | None]]:
        """What was asked, and the answers; None where the worker has ended instead."""
        for key, _ in self._selector.select():
            worker: subprocess.Popen[bytes] = key.data
            chunk = self._busy.pop(worker)
            self._selector.unregister(key.fileobj)
            assert worker.stdout is not None
            given = receive(worker.stdout, list[Answer])
            if given is None:
                _end(worker)
                self._started.remove(worker)
            else:
                self._free.append(worker)
            yield chunk, given

    def close(self) -> None:
        for worker in self._started:
            _end(worker)
        self._selector.close()

    def _give(self, worker: subprocess.Popen[bytes], chunk: Chunk) -> None:
        assert worker.stdout is not None
        self._busy[worker] = chunk
        self._selector.register(worker.stdout, selectors.EVENT_READ, worker)
        self._ask(worker, [os.fsencode(path) for path in chunk])

    def _ask(self, worker: subprocess.Popen[bytes], message: object) -> None:
        assert worker.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, which reading from it will tell
            send(message, worker.stdin)


def _end(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()
    worker.communicate()
