"""Writes checkpoints beside the training, which stands still for a copy to host memory only."""

import dataclasses
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from hasten.checkpoint.host_buffers import HostBuffers
from hasten.checkpoint.store import Content, Store

NICENESS = 10
"""Hashing takes a core. Where the training takes all of them, it shall come first; but at 19, the
last place, a write can take a hundred steps."""


class BackgroundWriter:
    """One write at a time, in one thread. The copy of the state stays in host memory.

    What went wrong in the thread is raised by the next ``save``, ``wait`` or ``close``, as it was.
    An interpreter that ends lets a write that has begun come to its end.
    """

    def __init__(self, store: Store, on_done: Callable[[Path], None] | None = None) -> None:
        """``on_done`` is called in the thread."""
        self._store = store
        self._on_done = on_done
        self._buffers = HostBuffers()
        self._pool = ThreadPoolExecutor(
            1, thread_name_prefix="hasten-checkpoint", initializer=_step_back
        )
        self._writing: Future[None] | None = None

    @property
    def is_busy(self) -> bool:
        return self._writing is not None and not self._writing.done()

    def save(self, content: Content) -> None:
        """The tensors may be anywhere, and change when this returns."""
        self.wait()  # the buffers are read until then
        names = [*content.model, *content.tensors]
        copied = self._buffers.copy([*content.model.values(), *content.tensors.values()])
        models = len(content.model)
        host = dataclasses.replace(
            content,
            model=dict(zip(names[:models], copied[:models], strict=True)),
            tensors=dict(zip(names[models:], copied[models:], strict=True)),
        )
        self._writing = self._pool.submit(self._write, host)

    def wait(self) -> None:
        """Until the disk has what was saved."""
        if self._writing is None:
            return
        try:
            self._writing.result()
        finally:
            if self._writing.done():  # it is not where the wait was interrupted
                self._writing = None

    def close(self) -> None:
        try:
            self.wait()
        finally:
            self._pool.shutdown()

    def _write(self, content: Content) -> None:
        path = self._store.write(content)
        if self._on_done is not None:
            self._on_done(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _step_back() -> None:
    if sys.platform == "linux":  # elsewhere a thread has no priority of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
