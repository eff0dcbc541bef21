"""``events.jsonl``: what a training told, a line of JSON for each event, of bounded size."""

from io import FileIO
from pathlib import Path
from typing import Any

import msgspec

from hasten.records.checkpoint import Position
from hasten.records.training import (
    CheckpointEvent,
    EvaluationEvent,
    NoteEvent,
    StepEvent,
    TrainingSummary,
)

EVENTS = "events.jsonl"
LARGEST_BYTES = 16 << 20
"""Of one file. Of a full one that was set aside there is only the newest, so twice this in all."""
KINDS = {
    StepEvent: "step",
    EvaluationEvent: "evaluation",
    CheckpointEvent: "checkpoint",
    NoteEvent: "note",
}
BLOCK_BYTES = 1 << 16


class EventLog:
    """A sink that appends to a file. Each line is handed to the system at once: a training that is
    killed keeps all but, at worst, a part of its last line, which the next one cuts off."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.aside = path.with_name(f"{path.stem}.1{path.suffix}")
        self._file: FileIO | None = None
        self._bytes = 0

    def started(self, position: Position, total_steps: int | None) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = FileIO(self.path, "a+")
        self._bytes = _whole_lines(self._file)
        self._file.truncate(self._bytes)
        last_step = _step_of(_last_line(self._file, self._bytes))
        if last_step is not None and last_step > position.step:
            self.event(NoteEvent(step=position.step, elapsed_s=0.0, words=_words(position.step)))

    def stepped(self, step: int) -> None:
        pass

    def event(self, event: StepEvent | EvaluationEvent | CheckpointEvent | NoteEvent) -> None:
        if self._file is None:
            return
        line = msgspec.json.encode({KINDS[type(event)]: event}) + b"\n"
        if self._bytes and self._bytes + len(line) > LARGEST_BYTES:
            self._begin_anew()
        self._write(line)

    def ended(self, summary: TrainingSummary) -> None:
        pass

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def _begin_anew(self) -> None:
        assert self._file is not None  # event has asked
        self._file.close()
        self.path.replace(self.aside)
        self._file = FileIO(self.path, "a+")
        self._bytes = 0

    def _write(self, line: bytes) -> None:
        assert self._file is not None
        while line:  # a system call may take a part only, before a disk is full
            written = self._file.write(line) or 0
            self._bytes += written
            line = line[written:]


def _whole_lines(file: FileIO) -> int:
    """How many bytes of it end in a line break."""
    end = file.seek(0, 2)
    while end:
        start = max(0, end - BLOCK_BYTES)
        found = _read(file, start, end).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _last_line(file: FileIO, end: int) -> bytes:
    """Empty where it is longer than any line of ours would be."""
    lines = _read(file, max(0, end - BLOCK_BYTES), end).splitlines()
    return lines[-1] if lines else b""


def _read(file: FileIO, start: int, end: int) -> bytes:
    file.seek(start)
    return file.read(end - start) or b""


def _step_of(line: bytes) -> int | None:
    try:
        events = msgspec.json.decode(line, type=dict[str, dict[str, Any]])
    except msgspec.DecodeError:
        return None
    steps = [each.get("step") for each in events.values()]
    return next((each for each in steps if isinstance(each, int)), None)


def _words(step: int) -> str:
    if step == 0:
        return "training begins at step 0: the lines above are of another run"
    return f"training goes on from step {step}: later steps above are of a run that was lost"
