"""Calls that go through torch.compile, and a count of what torch made of them."""

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from hasten.task import batch as batches
from hasten.task.autograd import has_compiled_code

STORM = 6
"""Steps after the first that compiled something: beyond this a training recompiles without end.
torch gives a function up at 8 graphs, and runs it eagerly from then on, with a line in a log.
Partial batches do not come here, an evaluation counts once, and sizes that move are compiled for
all sizes the second time, so that a quiet training has one or two."""


def _pass_through(eager: Callable[..., Any]) -> FunctionType:
    def through(*args: Any, **kwargs: Any) -> Any:
        return eager(*args, **kwargs)

    return cast(FunctionType, through)


def code_of_its_own() -> CodeType:
    """torch keeps by the code object what it compiled and what it gave up; calls that are compiled
    together share one, and the next model must not inherit it."""
    return _pass_through(len).__code__.replace()


class CompiledCall:
    """What a call does instead: of a module, or of the function that computes a loss.

    Unlike ``Module.compile`` it goes through a function of ours: torch passes over its own classes
    without a word, so that an ``nn.Sequential`` would stay eager. And a smaller batch, such as an
    epoch's last or an evaluation's, goes to the eager call: it would cost a compilation, and leave
    code for all sizes that is slower for the usual one.
    """

    def __init__(
        self, eager: Callable[..., Any], model: nn.Module, code: CodeType, **options: Any
    ) -> None:
        self._model = model
        self._eager = eager
        through = FunctionType(code, globals(), closure=_pass_through(eager).__closure__)
        self._compiled: Callable[..., Any] = torch.compile(through, **options)
        self._rows = 0
        """Of the largest batch that was trained on so far."""
        self.took_part = False
        """Whether compiled code was in the backward graph of a call."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        rows = _rows(args or tuple(kwargs.values()))
        if rows > self._rows and self._model.training and torch.is_grad_enabled():
            self._rows = rows
        if rows != self._rows:
            return self._eager(*args, **kwargs)
        output = self._compiled(*args, **kwargs)
        if not self.took_part and torch.is_grad_enabled():
            self.took_part = has_compiled_code(output)
        return output


def _rows(values: tuple[Any, ...]) -> int:
    # The first argument is nearly always the tensor, and then there is nothing to walk.
    first = values[0] if values and isinstance(values[0], Tensor) else None
    tensor = first if first is not None else next(iter(batches.tensors_of(values)), None)
    return tensor.size(0) if tensor is not None and tensor.dim() else 0


class CompileCounts:
    """Graphs and breaks since it was made, by torch's own count, which is the whole process's."""

    def __init__(self) -> None:
        self._start = self._read()
        self._after_first: int | None = None
        self._seen = 0
        self._busy_steps = 0

    def graphs(self) -> int:
        return int(counters["stats"]["unique_graphs"] - self._start["graphs"])

    def _read(self) -> dict[str, int]:
        return {
            "graphs": counters["stats"]["unique_graphs"],
            # Some reasons are filed under the one, some under the other.
            "breaks": counters["graph_break"].total() + counters["unimplemented"].total(),
            "cached": counters["inductor"]["fxgraph_cache_hit"],
        }

    def __str__(self) -> str:
        now = {key: value - self._start[key] for key, value in self._read().items()}
        words = _plural(now["graphs"], "new graph")
        if now["cached"]:
            words += f" ({_plural(now['cached'], 'piece')} of code from the cache)"
        again = self._again()
        if again:
            words += f", {again} of them after the first step"
        return f"{words}, {_plural(now['breaks'], 'break')}"

    def first_step_is_done(self) -> None:
        self._after_first = counters["stats"]["unique_graphs"]

    def _again(self) -> int:
        if self._after_first is None:
            return 0
        return int(counters["stats"]["unique_graphs"] - self._after_first)

    def storm(self) -> str | None:
        """Asked after every step."""
        again = self._again()
        if again == self._seen:
            return None
        self._seen, self._busy_steps = again, self._busy_steps + 1
        if self._busy_steps <= STORM:
            return None
        return f"it compiled {again} more graphs after the first step"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
