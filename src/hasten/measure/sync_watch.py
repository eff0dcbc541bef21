"""Watches the calls of torch functions and keeps a tally of the lines that waited."""

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from hasten.measure.frames import Line, line_behind
from hasten.measure.waits import kind_of_wait
from hasten.measure.whereabouts import Call, Whereabouts
from hasten.records.profile import SyncKind, SyncSite
from hasten.step.watch import hearing_syncs

_BACKWARD = {Tensor.backward, torch.autograd.backward, torch.autograd.grad}


class SyncWatch(TorchFunctionMode):
    """Sees each call in this thread, and those in the backward passes that it starts.

    Where torch tells of each wait, its word decides; else the call and where its tensors are.
    """

    def __init__(self, where: Whereabouts, *, torch_tells: bool) -> None:
        super().__init__()
        self._where = where
        self._torch_tells = torch_tells
        self._told = _Told()
        self._tallies: defaultdict[tuple[Line, SyncKind], _Tally] = defaultdict(_Tally)

    @contextmanager
    def watching(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(torch.compiler.set_stance("eager_on_recompile"))
            stack.enter_context(self._in_backward_passes())
            if self._torch_tells:
                stack.enter_context(hearing_syncs(self._hear))
            stack.enter_context(self)
            yield

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        call = Call(func, args, kwargs or {}, sys._getframe(1), self._where)
        kind = kind_of_wait(call)
        outer, self._told.waits = self._told.waits, 0
        start = time.perf_counter()
        try:
            result = func(*args, **call.kwargs)
        finally:
            elapsed = time.perf_counter() - start
            told, self._told.waits = self._told.waits, outer
        waits = told if self._torch_tells else int(kind is not None)
        if waits:
            self._note(call, kind or "other", waits, elapsed)
        return self._where.settle(call, result)

    def _note(self, call: Call, kind: SyncKind, waits: int, elapsed: float) -> None:
        """A call waits once, however many values it is for. A backward pass is many, and what it
        waited of its time is not known."""
        is_pass = call.func in _BACKWARD
        tally = self._tallies[line_behind(call.frame), kind]
        tally.add(waits if is_pass else 1, None if is_pass else elapsed)

    def _hear(self, filename: str, line: int) -> None:
        """Torch has waited. Within a call that is watched, the call sees to it."""
        if self._told.waits is None:
            frame = _frame_at(filename, line)
            self._tallies[line_behind(frame), "other"].add(1, None)
        else:
            self._told.waits += 1

    @contextmanager
    def _in_backward_passes(self) -> Iterator[None]:
        """While torch handles a call it hides the mode that watches; hooks and backward functions
        of the user's run below such a call, and are watched again."""
        engine: Any = torch.autograd
        run_engine = engine._engine_run_backward

        def watched(*args: Any, **kwargs: Any) -> Any:
            self._where.in_backward += 1
            try:
                with ExitStack() as stack:
                    if self not in _get_current_function_mode_stack():  # type: ignore[no-untyped-call]
                        stack.enter_context(self)
                    return run_engine(*args, **kwargs)
            finally:
                self._where.in_backward -= 1

        engine._engine_run_backward = watched
        try:
            yield
        finally:
            engine._engine_run_backward = run_engine

    def sites(self, steps: int) -> tuple[SyncSite, ...]:
        """The costliest first."""
        found = [
            SyncSite(
                place=line.place,
                kind=kind,
                code=line.code,
                per_step=tally.count / steps,
                cost_s=None if tally.seconds is None else tally.seconds / steps,
            )
            for (line, kind), tally in self._tallies.items()
        ]
        return tuple(sorted(found, key=lambda site: -(site.cost_s or 0.0)))


class _Tally:
    def __init__(self) -> None:
        self.count = 0
        self.seconds: float | None = None
        """None while no wait could be timed."""

    def add(self, count: int, seconds: float | None) -> None:
        self.count += count
        if seconds is not None:
            self.seconds = (self.seconds or 0.0) + seconds


class _Told(threading.local):
    """What torch told in this thread."""

    waits: int | None = None
    """Within the call under way; None between calls."""


def _frame_at(filename: str, line: int) -> FrameType:
    """The frame that a warning stands at; ours, where it is not to be found."""
    ours = frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if (frame.f_code.co_filename, frame.f_lineno) == (filename, line):
            return frame
    return ours
