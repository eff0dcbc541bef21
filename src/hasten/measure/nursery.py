"""A process that has loaded torch, from which workers are forked: loading takes seconds, and a tune
starts dozens of workers.

No code of the user's runs in it. Workers that are forked share the places of code and data in
memory and the order of sets, by which processes that are started anew differ from each other, and
what torch's compiler has read from the environment: what is claimed is measured in processes that
are started anew, and a task that sets variables of the environment has no others.
"""

import importlib
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from hasten.errors import HastenError
from hasten.host.forked import die_with
from hasten.host.started import start_module

ANSWER_LIMIT_S = 300.0
"""The first answer comes when torch is loaded, the others at once."""
NUMBER = struct.Struct("<q")
"""A process id or an exit code."""
DESCRIPTORS = 3
"""Of a worker: where requests come from, where replies go, and where prints go."""


class Nursery:
    """Ours to close; all that was forked from it ends with it."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._socket, theirs = socket.socketpair()
        with theirs, log.open("wb") as output:
            self._process = start_module("hasten.measure.nursery", [theirs.fileno()], output)

    def fork(self, requests: int, replies: int, prints: int) -> "Forked":
        """A worker in a process group of its own, with these descriptors, which stay ours too."""
        return Forked(self, self.ask(b"fork", requests, replies, prints))

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def ask(self, message: bytes, *descriptors: int) -> int:
        how = f"gave no answer in {ANSWER_LIMIT_S:.0f} s"
        try:
            answer = self._exchange(message, descriptors)
        except OSError:
            answer, how = b"", f"has ended ({self._end()})"
        except BaseException:
            self.close()  # else the next one would get the answer to this question
            raise
        if not answer:
            self.close()
            raise HastenError(
                f"The process that training processes are forked from {how}.",
                fix="Run it again; if that does not help, check that `import torch` works here.",
                detail=self._log.read_text(errors="replace"),
            )
        return int(NUMBER.unpack(answer)[0])

    def close(self) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def _exchange(self, message: bytes, descriptors: Sequence[int]) -> bytes:
        """Nothing where no answer came in time."""
        socket.send_fds(self._socket, [message], descriptors)
        if not select.select([self._socket], [], [], ANSWER_LIMIT_S)[0]:
            return b""
        answer = self._socket.recv(NUMBER.size)
        if not answer:
            raise ConnectionError("the other end is closed")
        return answer

    def _end(self) -> str:
        code = self._process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"


class Forked:
    """A worker's process, which is the nursery's child and not ours."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery = nursery
        self.pid = pid
        self._code: int | None = None

    def wait(self) -> int:
        """Until it has ended. As of ``Popen``: the exit code, or a signal as a negative number."""
        if self._code is None:
            try:
                self._code = self._nursery.ask(NUMBER.pack(self.pid))
            except HastenError:
                self._code = -signal.SIGKILL  # the nursery is gone, and it with that
        return self._code


def _run(control: socket.socket, parent: int, began: float) -> None:
    die_with(parent)
    from hasten.measure import child  # and with it torch

    load_s, more_s = time.monotonic() - began, 0.0
    here, forks = os.getpid(), 0
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, NUMBER.size, DESCRIPTORS)
        if not message:
            return
        if descriptors:
            forks += 1
            if forks == 2:  # the first one often finds that there is nothing to measure
                more_s = _load_what_optimizers_need()
            number = os.fork()
            os.setpgid(number, number or os.getpid())  # on both sides: whoever comes first
            if not number:
                control.close()
                requests, replies, prints = descriptors
                _settle(here, prints)
                child.serve(requests, replies, time.monotonic() - load_s, more_s)
                return
            for each in descriptors:
                os.close(each)
        else:
            _, status = os.waitpid(NUMBER.unpack(message)[0], 0)
            number = os.waitstatus_to_exitcode(status)
        control.sendall(NUMBER.pack(number))


def _load_what_optimizers_need() -> float:
    """What making any optimizer of torch imports; it takes nearly as long as torch itself."""
    began = time.monotonic()
    importlib.import_module("torch._dynamo")
    return time.monotonic() - began


def _settle(nursery: int, prints: int) -> None:
    """In the worker: what a process that is started anew has by itself."""
    if os.getppid() != nursery:
        raise SystemExit(0)  # it died before the kernel knew that we go with it
    for standard in (sys.stdout, sys.stderr):
        os.dup2(prints, standard.fileno())
    os.close(prints)


if __name__ == "__main__":
    _run(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), float(sys.argv[3]))
