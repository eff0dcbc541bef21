"""The parent's end of an arm's process: asks, stops and ends its process group."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from arms.workload import Setting

BENCHMARKS = Path(__file__).parents[1]


class ArmError(Exception):
    """An arm that cannot go on; ``row`` is what the results say of it."""

    def __init__(self, row: dict[str, Any]) -> None:
        super().__init__(row["why"])
        self.row = row


class ArmProcess:
    def __init__(self, setting: Setting) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed by end()
        command = [sys.executable, "-m", "arms.child", setting.to_json()]
        self._process = subprocess.Popen(
            [*command, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": _python_path()},
            start_new_session=True,  # so that its loader workers are stopped with it
        )

    def send(self, do: str, **arguments: Any) -> None:
        self.resume()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ArmError(self._ended()) from None

    def receive(self, until: float) -> dict[str, Any]:
        """The answer; ``until`` is a time of the monotonic clock."""
        assert self._process.stdout is not None
        left_s = max(0.0, until - time.monotonic())
        ready, _, _ = select.select([self._process.stdout], [], [], left_s)
        if not ready:
            raise ArmError({"outcome": "failed", "why": "no answer in time"})
        line = self._process.stdout.readline()
        reply: dict[str, Any] = json.loads(line) if line else self._ended()
        if "outcome" in reply:
            raise ArmError(reply)
        return reply

    def ask(self, do: str, *, limit_s: float, **arguments: Any) -> dict[str, Any]:
        """Runs for this request only, and is stopped again."""
        self.send(do, **arguments)
        reply = self.receive(time.monotonic() + limit_s)
        self.pause()
        return reply

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        if self._process.returncode is not None:
            return  # and its number may be another's by now
        self._signal(signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return  # all of the group have ended

    def _ended(self) -> dict[str, Any]:
        code = self._process.wait()
        self._errors.seek(0)
        last = self._errors.read().decode(errors="replace").strip().splitlines()[-3:]
        return {"outcome": "failed", "why": f"ended with {code}: {' | '.join(last)}"[:2000]}


def _python_path() -> str:
    """The folder of this package before what was set: an installed Hasten may be absent."""
    return os.pathsep.join(filter(None, [str(BENCHMARKS), os.environ.get("PYTHONPATH")]))
