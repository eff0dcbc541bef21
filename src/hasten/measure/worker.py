"""A worker process of ours: its own process group, watched from outside.

The child cannot hang us (every reply has a deadline), cannot outlive us (it asks the kernel to be
killed with its parent, and its group is killed when the handle is closed) and cannot mix its
prints with the protocol (those go to a log file).
"""

import os
import select
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from hasten.errors import HastenError, in_a_line
from hasten.host.started import start_module
from hasten.measure.messages import DUMP_STACKS, AnyReply, Failed, Reply, Request
from hasten.measure.nursery import Forked, Nursery

REPLY_LIMIT_S = 900.0
LOG_TAIL_LINES = 20
STACK_LINES = 60
STACKS_S = 1.0
"""Writing them takes milliseconds; one that cannot even do that is not waited for."""
R = TypeVar("R", bound=Reply)
T = TypeVar("T")


class WorkerFailure(Exception):  # noqa: N818  # expected in a trial, and recorded as a row
    """A worker's request failed; ``failed`` says how. A trial becomes a row of it."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.what)
        self.failed = failed

    def in_a_line(self) -> str:
        return in_a_line(self.failed.what)

    def as_error(self) -> HastenError:
        return HastenError(self.failed.what, fix=self.failed.fix, detail=self.failed.detail)


def once_more(work: Callable[[], T], of: type[WorkerFailure] = WorkerFailure) -> T:
    """Where a process died in it: that may be the machine's fault, and not come again."""
    try:
        return work()
    except of as failure:
        if failure.failed.kind != "crashed":
            raise
    return work()


class Worker:
    """Start with ``with``: leaving the block ends the process and all it started."""

    def __init__(self, log: Path, nursery: Nursery | None = None) -> None:
        """Forked from the ``nursery``, else a process that loads all by itself."""
        self._log = log
        request_read, self._requests = os.pipe()
        self._replies, reply_write = os.pipe()
        try:
            with log.open("wb") as output:
                self._process: Forked | subprocess.Popen[bytes] = (
                    start_module("hasten.measure.child", [request_read, reply_write], output)
                    if nursery is None
                    else nursery.fork(request_read, reply_write, output.fileno())
                )
        except BaseException:
            os.close(self._requests)
            os.close(self._replies)
            raise
        finally:
            os.close(request_read)
            os.close(reply_write)
        self._paused = False
        self._closed = False
        self._ended: Failed | None = None
        """Why we ended it ourselves; else every later question would tell of the kill."""
        self.has_failed = False
        """Whether a request to it failed, in whatever way."""
        self._task = ""
        self._doing = ""

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def ask(self, request: Request, reply: type[R], limit_s: float = REPLY_LIMIT_S) -> R:
        """Send a request and wait for its answer; raises WorkerFailure."""
        self.send(request)
        return self.receive(reply, limit_s)

    def send(self, request: Request) -> None:
        """Only send, so that several workers can get ready at the same time."""
        self.resume()
        self._task = getattr(request, "task", self._task)
        self._doing = f", while {self._task} {request.doing}" if self._task else ""
        body = msgspec.msgpack.encode(request)
        try:
            os.write(self._requests, struct.pack("<I", len(body)) + body)
        except BrokenPipeError:
            raise WorkerFailure(self._crashed()) from None

    def receive(self, reply: type[R], limit_s: float = REPLY_LIMIT_S) -> R:
        deadline = time.monotonic() + limit_s
        size = struct.unpack("<I", self._read(4, deadline, limit_s))[0]
        answer = msgspec.msgpack.decode(self._read(size, deadline, limit_s), type=AnyReply)
        if isinstance(answer, Failed):
            self.has_failed = True
            raise WorkerFailure(answer)
        if not isinstance(answer, reply):
            raise AssertionError(f"asked for {reply.__name__}, got {type(answer).__name__}")
        return answer

    def pause(self) -> None:
        """Stop the whole group: a loader must not prefetch while the other arm is timed."""
        if not self._paused:
            self._signal(signal.SIGSTOP)
            self._paused = True

    def resume(self) -> None:
        if self._paused:
            self._signal(signal.SIGCONT)
            self._paused = False

    def close(self) -> None:
        """End the process and all that it started; closing twice is fine."""
        if self._closed:
            return
        self._closed = True
        self._signal(signal.SIGKILL)
        self._process.wait()
        os.close(self._requests)
        os.close(self._replies)

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return  # it has ended, and so has all that it started

    def _read(self, size: int, deadline: float, limit_s: float) -> bytes:
        chunks = b""
        while len(chunks) < size:
            left = deadline - time.monotonic()
            ready = left > 0 and select.select([self._replies], [], [], left)[0]
            if not ready:
                raise WorkerFailure(self._hung(limit_s))
            chunk = os.read(self._replies, size - len(chunks))
            if not chunk:
                raise WorkerFailure(self._crashed())
            chunks += chunk
        return chunks

    def _crashed(self) -> Failed:
        self.has_failed = True
        if self._ended is not None:
            return self._ended
        self._signal(signal.SIGKILL)  # its children, where it has left any
        code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        fix = "Run the task's own script to see why."
        if code == -signal.SIGKILL:
            fix = "The kernel does that where memory runs out: try a smaller batch. " + fix
        return Failed(
            kind="crashed",
            what=f"The training process ended unexpectedly ({how}){self._doing}.",
            fix=fix,
            detail=self.log_tail(),
        )

    def _hung(self, limit_s: float) -> Failed:
        self.has_failed = True
        self._dump_stacks()
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._ended = Failed(
            kind="hung",
            what=f"The training process gave no answer in {limit_s:.0f} s and was ended.",
            fix="Check that a step of the task ends by itself; the lines above are where it stood.",
            detail=self.log_tail(STACK_LINES),
        )
        return self._ended

    def _dump_stacks(self) -> None:
        before = self._log.stat().st_size
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, DUMP_STACKS)
        deadline = time.monotonic() + STACKS_S
        while self._log.stat().st_size == before and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.05)  # the rest of them
