"""Which line of the user's code asked for an operation, noted while a step runs.

Method: a dispatch mode sees every operation that is not compiled, finds the innermost frame that is
the user's, and runs the operation in a range whose name leads back to it. What the backward pass
does is noted at the line whose forward operation made the node of the autograd graph.
"""

import sys
from collections.abc import Callable
from typing import Any

import msgspec
import torch
from torch._C._profiler import _RecordFunctionFast as Range
from torch.utils._python_dispatch import TorchDispatchMode

from hasten.measure.frames import Line, line_below
from hasten.step import eager

PREFIX = "hasten line "
STEP = str(eager.__file__)


class Note(msgspec.Struct, frozen=True):
    line: Line | None
    recomputed: bool
    """Whether it is a forward operation within the backward pass, done once more."""


class LineNotes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._notes: list[Note] = []
        self._known: dict[Note, int] = {}
        self._of_node: dict[int, Line | None] = {}

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Compiled code stays compiled, and is not looked into."""
        return True

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        with Range(f"{PREFIX}{self._number(self._note())}"):
            return func(*args, **(kwargs or {}))

    def find(self, name: str) -> Note | None:
        """The note that a range of this name leads to, where it is one of ours."""
        if not name.startswith(PREFIX):
            return None
        return self._notes[int(name.removeprefix(PREFIX))]

    def _note(self) -> Note:
        line = line_below(STEP, sys._getframe(2))
        node = torch._C._current_autograd_node()
        if node is None:
            # The node of this operation was the last to be made, if it has one.
            self._of_node.setdefault(torch._C._autograd._get_sequence_nr() - 1, line)
            return Note(line, recomputed=False)
        if torch.is_grad_enabled():
            return Note(line, recomputed=True)
        return Note(line or self._of_node.get(node._sequence_nr()), recomputed=False)

    def _number(self, note: Note) -> int:
        if note not in self._known:
            self._known[note] = len(self._notes)
            self._notes.append(note)
        return self._known[note]
