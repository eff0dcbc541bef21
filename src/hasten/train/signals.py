"""Ctrl-C and SIGTERM: the step that is under way is finished, then training stops."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from torch.utils.data._utils.signal_handling import _set_SIGCHLD_handler

NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
Handler = Callable[[int, FrameType | None], Any] | int | None


class _Leaving(KeyboardInterrupt):  # it is no more an error than its base is
    """A SystemExit on its way out, through code that would take it for one of the user's own."""

    def __init__(self, leaving: SystemExit) -> None:
        super().__init__()
        self.leaving = leaving


class StopRequest:
    """Listens between ``with`` and its end, and puts the handlers back that were there before.

    The first signal is noted in ``signal``; as long as there is ``nothing_to_lose`` it also does at
    once what it would have done. A second Ctrl-C interrupts at once; a second SIGTERM changes
    nothing. Outside the main thread, where Python has no handlers, nothing is listened to.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.nothing_to_lose = True
        """Until the first step."""
        self._process = os.getpid()
        self._has_left = False
        self._before: dict[int, Handler] = {}
        self._frame: FrameType | None = None
        self._worker_error: RuntimeError | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in NAMES:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                    self._before[number] = signal.signal(number, self._note)
            # It raises in the midst of a step where a worker has died, as by a signal to all.
            _set_SIGCHLD_handler()
            self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, self._child_ended)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for number, handler in self._before.items():
            # None: it was not set from Python, and only the default can be put in its place.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if isinstance(error, _Leaving):
            raise error.leaving from None

    @property
    def words(self) -> str:
        assert self.signal is not None  # asked for only then
        return NAMES[signal.Signals(self.signal)]

    def leave(self) -> None:
        """Once all is safe, what the signal would have done: the program's own handler is called,
        if it has one; else it ends. Nothing without a signal, or where that was done before."""
        if self.signal is None or self._has_left:
            return
        handler = self._before[self.signal]
        if callable(handler) and handler is not signal.default_int_handler:
            handler(self.signal, self._frame)
            self._has_left = True
        elif self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        else:
            raise SystemExit(128 + self.signal)

    def raise_worker_error(self) -> None:
        """Between two steps: that a worker of the loader has died."""
        if self._worker_error is not None:
            error, self._worker_error = self._worker_error, None
            raise error

    def _child_ended(self, number: int, frame: FrameType | None) -> None:
        handler = self._before[signal.SIGCHLD]
        try:
            if callable(handler):
                handler(number, frame)
        except RuntimeError as error:
            self._worker_error = error

    def _note(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:
            _end_child(number)
        elif self.signal is None:
            self.signal, self._frame = number, frame
            if self.nothing_to_lose:
                self._leave_at_once()
        elif number == signal.SIGINT:
            raise KeyboardInterrupt

    def _leave_at_once(self) -> None:
        """A handler of the program's own may return: then training ends before its first step."""
        try:
            self.leave()
        except SystemExit as leaving:
            raise _Leaving(leaving) from None


def _end_child(number: int) -> None:
    """A process that was forked from this one has nothing to save. Ctrl-C comes to its parent too,
    which knows what to do."""
    if number == signal.SIGTERM:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
