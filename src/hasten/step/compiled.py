"""Calls that go through torch.compile, and a count of what torch made of them."""

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

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
        self,
        eager: Callable[..., Any],
        model: nn.Module,
        code: CodeType,
        counts: "CompileCounts",
        **options: Any,
    ) -> None:
        self._model = model
        self._counts = counts
        self._eager = eager
        through = FunctionType(code, globals(), closure=_pass_through(eager).__closure__)
        self._compiled: Callable[..., Any] = torch.compile(through, **options)
        self.rows = 0
        """Of the largest batch that was trained on so far."""
        self.took_part = False
        """Whether compiled code was in the backward graph of a call."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        rows = _rows(args or tuple(kwargs.values()))
        if rows > self.rows and self._model.training and torch.is_grad_enabled():
            self.rows = rows
        if rows != self.rows:
            return self._eager(*args, **kwargs)
        with self._counts:
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
    """Graphs and breaks that were made inside of its ``with`` blocks.

    torch's own count is the whole process's, and other code may compile as well.
    """

    def __init__(self) -> None:
        # Takes a second, and few commands compile.
        from torch._dynamo.utils import counters

        self._counters = counters
        self._total = _Count(0, 0, 0)
        self._before = _Count(0, 0, 0)
        self._depth = 0
        self._after_first: int | None = None
        self._seen = 0
        self._busy_steps = 0

    def __enter__(self) -> None:
        if not self._depth:
            self._before = self._count()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            now = self._count()
            if now != self._before:
                made = zip(self._total, now, self._before, strict=True)
                self._total = _Count(*(total + one - other for total, one, other in made))

    def _count(self) -> "_Count":
        counters = self._counters
        return _Count(
            graphs=counters["stats"]["unique_graphs"],
            # Some reasons are filed under the one, some under the other.
            breaks=counters["graph_break"].total() + counters["unimplemented"].total(),
            cached=counters["inductor"]["fxgraph_cache_hit"],
        )

    def graphs(self) -> int:
        return self._total.graphs

    def __str__(self) -> str:
        words = _plural(self._total.graphs, "new graph")
        if self._total.cached:
            words += f" ({_plural(self._total.cached, 'piece')} of code from the cache)"
        again = self._again()
        if again:
            words += f", {again} of them after the first step"
        return f"{words}, {_plural(self._total.breaks, 'break')}"

    def first_step_is_done(self) -> None:
        self._after_first = self._total.graphs

    def _again(self) -> int:
        return 0 if self._after_first is None else self._total.graphs - self._after_first

    def storm(self) -> str | None:
        """Asked after every step."""
        again = self._again()
        if again == self._seen:
            return None
        self._seen, self._busy_steps = again, self._busy_steps + 1
        if self._busy_steps <= STORM:
            return None
        return f"it compiled {again} more graphs after the first step"


class _Count(NamedTuple):
    graphs: int
    breaks: int
    cached: int


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
