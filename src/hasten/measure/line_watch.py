"""Which lines of some files a task runs.

Method: Python's trace function, set before the task is imported; each line is noted once, in a file
that forked processes of a loader share. Compiled models run eagerly meanwhile.

Limits: what a loader's processes run that were not forked is not seen, nor is Python that the
backward pass of a device calls. A line that runs now and then only may not be seen in some steps.
"""

import os
import sys
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from types import FrameType
from typing import Any, Self

import torch

from hasten.measure.blocks import timed_steps
from hasten.measure.messages import LinesRan, WatchLines
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.task import Task


def watch_lines(build: Callable[[], Task], request: WatchLines) -> LinesRan:
    with LineWatch(request.files, Path(request.log)) as watch:
        run = Run(Pipeline.from_task(build()))
        with torch.compiler.set_stance("force_eager"):
            timed_steps(run, run.endless(), request.steps)
    return LinesRan(lines=watch.read())


class LineWatch:
    """Use with ``with``."""

    def __init__(self, files: Collection[str], log: Path) -> None:
        self._files = {os.path.realpath(each): number for number, each in enumerate(files)}
        self._names = tuple(files)
        self._log = log
        self._numbers: dict[str, int | None] = {}
        self._seen: set[tuple[int, int]] = set()
        self._descriptor = -1

    def __enter__(self) -> Self:
        self._descriptor = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._before = sys.gettrace(), threading.gettrace()
        threading.settrace(self._enter)
        sys.settrace(self._enter)
        return self

    def __exit__(self, *exception: object) -> None:
        before, before_in_threads = self._before
        sys.settrace(before)
        threading.settrace(before_in_threads)
        os.close(self._descriptor)

    def read(self) -> dict[str, tuple[int, ...]]:
        found: dict[int, set[int]] = {number: set() for number in range(len(self._names))}
        for line in self._log.read_text().splitlines():
            number, _, at = line.partition(" ")
            found[int(number)].add(int(at))
        return {name: tuple(sorted(found[number])) for number, name in enumerate(self._names)}

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if name not in self._numbers:
            self._numbers[name] = self._files.get(os.path.realpath(name))
        return None if self._numbers[name] is None else self._within

    def _within(self, frame: FrameType, event: str, argument: Any) -> Any:
        number = self._numbers[frame.f_code.co_filename]
        if event == "line" and number is not None and (number, frame.f_lineno) not in self._seen:
            self._seen.add((number, frame.f_lineno))
            os.write(self._descriptor, f"{number} {frame.f_lineno}\n".encode())
        return self._within
