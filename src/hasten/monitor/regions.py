"""Named regions of the user's own code: a line of JSON for each in a log, a range in a profile.

The logger ``hasten.profiled`` at INFO is the only switch. The time is the host's: nothing waits for
the device, and torch is not imported. Where a torch profiler is active, a region is a range of its
trace as well, and there the device's time stands too.
"""

import inspect
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import wraps
from itertools import count
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from hasten.errors import HastenError

P = ParamSpec("P")
R = TypeVar("R")

LOG = logging.getLogger("hasten.profiled")


def profiled(name: str) -> "Region":
    """Time a function, as ``@profiled("load")``, or a block, as ``with profiled("load"):``."""
    if not isinstance(name, str) or not name:
        raise HastenError(
            f"profiled({name!r}) has no name to tell.",
            fix='Name the region: @hasten.profiled("load") or with hasten.profiled("load").',
        )
    return Region(name)


class Region:
    """Keeps nothing of a single run, so that it may nest in itself and run in many threads."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        if _is_on():
            _innermost.set(_Open(self, _innermost.get()))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if _torch_traces():
            return
        opened = _innermost.get()
        while opened is not None and opened.region is not self:
            opened = opened.outer  # what lies within was left open, by a generator that waits
        if opened is not None:
            _innermost.set(opened.outer)
            opened.close(kind)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise HastenError(
                f"profiled({self.name!r}) cannot time {function.__qualname__}: a generator runs in "
                "pieces, and its caller's time is in between.",
                fix="Use the with form around what each piece does.",
            )
        if inspect.iscoroutinefunction(function):
            return self._around_coroutine(function)  # type: ignore[no-any-return]

        @wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> R:
            if not _is_on():
                return function(*args, **kwargs)
            with self:
                return function(*args, **kwargs)

        return timed

    def _around_coroutine(self, function: Any) -> Any:
        @wraps(function)
        async def timed(*args: Any, **kwargs: Any) -> Any:
            with self:
                return await function(*args, **kwargs)

        return timed


class _Open:
    """A region that has begun and not ended."""

    __slots__ = ("outer", "path", "range", "region", "start")

    def __init__(self, region: Region, outer: "_Open | None") -> None:
        self.region, self.outer = region, outer
        self.path: str = region.name if outer is None else f"{outer.path}/{region.name}"
        self.range = _range(self.path) if _torch_profiles() else None
        self.start = time.perf_counter()

    def close(self, error: type[BaseException] | None) -> None:
        seconds = time.perf_counter() - self.start
        if self.range is not None:
            self.range.__exit__(None, None, None)
        if LOG.isEnabledFor(logging.INFO):
            told = self._describe(seconds, error)
            LOG.info(json.dumps(told), extra={"region": told})

    def _describe(self, seconds: float, error: type[BaseException] | None) -> dict[str, Any]:
        return {
            "name": self.region.name,
            "path": self.path,
            "seconds": seconds,
            "count": next(_counts.setdefault(self.path, count(1))),
            "thread": threading.current_thread().name,
            "process": os.getpid(),
            "error": None if error is None else error.__name__,
        }


_innermost: ContextVar[_Open | None] = ContextVar("hasten.profiled", default=None)
"""Of this thread, and of this task where there are several."""
_counts: "dict[str, count[int]]" = {}
"""How often each path has ended in this process."""


def _is_on() -> bool:
    return not _torch_traces() and (LOG.isEnabledFor(logging.INFO) or _torch_profiles())


def _torch_traces() -> bool:
    """Whether torch.compile is reading the code: what it makes of it has no regions, and is not
    broken in pieces by them."""
    compiler: Any = sys.modules.get("torch.compiler")
    return compiler is not None and compiler.is_dynamo_compiling()


def _torch_profiles() -> bool:
    """Whether a torch profiler is active; it can only be where torch is imported."""
    profiler = sys.modules.get("torch.autograd.profiler")
    return profiler is not None and getattr(profiler, "_is_profiler_enabled", False)


def _range(path: str) -> AbstractContextManager[Any]:
    opened: AbstractContextManager[Any] = sys.modules["torch.autograd.profiler"].record_function(
        path
    )
    opened.__enter__()
    return opened
