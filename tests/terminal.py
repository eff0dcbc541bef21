"""A real process on a terminal of its own, and what a person would then see there."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from collections.abc import Sequence
from pathlib import Path

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def run_on_terminal(
    command: Sequence[str],
    columns: int,
    *,
    folder: Path | None = None,
    term: str = "xterm",
    interrupt_at: str = "",
) -> tuple[int, str]:
    """Exit code, and all that was written to the terminal: stdout and stderr are both there.
    ``interrupt_at``: as by Ctrl-C, once that stands there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = plain_environment() | {"TERM": term}
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment
    ) as process:
        os.close(theirs)
        try:
            written = _read(ours, process, interrupt_at)
        except BaseException:
            process.kill()  # it would wait for a terminal that nobody reads
            raise
    os.close(ours)
    return process.returncode, written


def lines_seen(written: str) -> list[str]:
    """Every line that stood on the screen at some time, without colours and movements."""
    parts = re.split(r"[\r\n]+", CONTROL.sub("", written))
    return [part.rstrip() for part in parts if part.strip()]


def plain_environment() -> dict[str, str]:
    """Without what would tell rich of another terminal than the one that is there."""
    told = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    kept = {name: value for name, value in os.environ.items() if name not in told}
    return kept | {"PYTHONIOENCODING": "utf-8"}


def _read(descriptor: int, process: subprocess.Popen[bytes], interrupt_at: str) -> str:
    found = b""
    waits = bool(interrupt_at)
    while True:
        try:
            block = os.read(descriptor, 65_536)
        except OSError:  # how Linux says that nobody holds the other end any more
            block = b""
        if not block:
            return found.decode()
        found += block
        if waits and interrupt_at.encode() in found:
            waits = False
            process.send_signal(signal.SIGINT)
