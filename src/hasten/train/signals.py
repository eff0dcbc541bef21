"""Ctrl-C and SIGTERM: the step that is under way is finished, then training stops."""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from torch.utils.data._utils.signal_handling import _set_SIGCHLD_handler

NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
Handler = Callable[[int, FrameType | None], Any] | int | None


class StopRequest:
    """Listens between ``with`` and its end, and puts the handlers back that were there before.

    The first signal is noted in ``signal``. A second Ctrl-C interrupts at once; a second SIGTERM
    changes nothing. Outside the main thread, where Python has no handlers, nothing is listened to.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
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

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            # None: it was not set from Python, and only the default can be put in its place.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    @property
    def words(self) -> str:
        assert self.signal is not None  # asked for only then
        return NAMES[signal.Signals(self.signal)]

    def leave(self) -> None:
        """Once all is safe, what the signal would have done: the program's own handler is called,
        if it has one; else it ends. Nothing without a signal."""
        if self.signal is None:
            return
        handler = self._before[self.signal]
        if callable(handler) and handler is not signal.default_int_handler:
            handler(self.signal, self._frame)
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
        if self.signal is None:
            self.signal, self._frame = number, frame
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
