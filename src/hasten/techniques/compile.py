"""Compile the model, whole or block by block, in place."""

import os
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.task import batch as batches
from hasten.task.autograd import has_compiled_code
from hasten.task.pipeline import Pipeline
from hasten.task.traits import repeated_blocks
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique

CACHE = "TORCHINDUCTOR_CACHE_DIR"
STORM = 6
"""Steps after the first that compiled something: beyond this a training recompiles without end.
torch gives a function up at 8 graphs, and runs it eagerly from then on, with a line in a log.
Partial batches do not come here, an evaluation counts once, and sizes that move are compiled for
all sizes the second time, so that a quiet training has one or two."""


class CompilePart(Part, frozen=True, kw_only=True):
    mode: Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"] = (
        "default"
    )
    """"reduce-overhead" adds CUDA graphs; "max-autotune" those, and times many kernels."""
    regions: Literal["whole", "blocks"] = "whole"
    """"blocks": each of the model's repeated blocks by itself, which compiles once for all."""
    backend: Literal["inductor", "aot_eager", "eager"] = "inductor"
    """"aot_eager" and "eager" trace without generating code, to find out what fails."""
    cache_dir: str = ""
    """Where compiled code is kept for later runs; empty: where torch keeps it."""


class CompileTechnique(Technique[CompilePart]):
    name = "compile"
    part = CompilePart
    stage = Stage.COMPILE
    rung = Rung.ROUNDING
    answers = ("eager-model",)
    about = "torch.compile of the model in place; partial batches run eagerly."
    helps = "Many small operations between large ones, which fuse; large transformers and CNNs."
    costs = (
        "Seconds to minutes at the first step; max-autotune many minutes. Code is kept in a cache, "
        "so that the next run starts faster. Dropout draws another stream of the same distribution."
    )
    limits = (
        "Recurrent layers stay eager. Whatever cannot be traced breaks the graph in two, and "
        "moving shapes compile again; both are counted, and a run that compiles without end falls "
        "back."
    )
    needs = "On a CPU a C++ compiler; on a GPU triton."
    slow_to_prepare = True

    def unavailable(self, environment: Environment) -> str | None:
        if environment.device.kind == "cpu" and environment.compiler is None:
            return "there is no C++ compiler (g++ or clang++) on the path"
        if environment.device.kind == "cuda" and "triton" not in environment.versions:
            return "triton is not installed"
        return None

    def unsuited(self, traits: Traits) -> str | None:
        if traits.model.families == ("recurrent",):
            return "torch does not compile recurrent layers"
        return None

    def to_try(self, environment: Environment, traits: Traits) -> list[CompilePart]:
        return [CompilePart()]

    def strongest(self, environment: Environment, traits: Traits) -> CompilePart:
        # Without graphs of its own: at this level the whole step is one.
        return CompilePart(mode="max-autotune-no-cudagraphs")

    def apply(self, pipeline: Pipeline, part: CompilePart) -> Effect:
        modules = [pipeline.model]
        if part.regions == "blocks":
            modules = repeated_blocks(pipeline.model)
            if not modules:
                raise CannotApply("the model has no repeated blocks")
        if any(module._compiled_call_impl is not None for module in modules):
            raise CannotApply("the model is compiled already")
        forget_cache = _keep_cache_in(part.cache_dir)
        counts = _Counts()
        code = _pass_through(len).__code__.replace()
        calls = {module: _CompiledCall(module, part, code) for module in modules}
        for module, call in calls.items():
            module._compiled_call_impl = call

        def undo() -> None:
            forget_cache()
            for module, call in calls.items():
                if module._compiled_call_impl is call:  # and not one that the user put there since
                    del module._compiled_call_impl  # the class has None

        def did_run() -> str | None:
            counts.first_step_is_done()
            took_part = any(call.took_part for call in calls.values())
            if part.backend == "eager":  # it leaves no code in the backward graph
                took_part = counts.graphs() > 0
            return None if took_part else "torch compiled no part of the model"

        return Effect(
            why=lambda: f"{_shape(part, len(modules))}: {counts}",
            undo=undo,
            did_run=did_run,
            problem=counts.storm,
        )


def _shape(part: CompilePart, modules: int) -> str:
    what = f"{modules} blocks" if part.regions == "blocks" else "whole model"
    by = "" if part.backend == "inductor" else f", backend {part.backend}"
    return f"{what}, mode {part.mode}{by}"


def _keep_cache_in(folder: str) -> Callable[[], None]:
    """Where inductor looks when it compiles: an environment variable, which is put back."""
    if not folder:
        return lambda: None
    before = os.environ.get(CACHE)
    os.environ[CACHE] = str(Path(folder).expanduser().resolve())

    def put_back() -> None:
        if before is None:
            os.environ.pop(CACHE, None)
        else:
            os.environ[CACHE] = before

    return put_back


class _Counts:
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
        again = self._again()
        if again == self._seen:
            return None
        self._seen, self._busy_steps = again, self._busy_steps + 1
        if self._busy_steps <= STORM:
            return None
        return f"it compiled {again} more graphs after the first step"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _pass_through(eager: Callable[..., Any]) -> FunctionType:
    def through(*args: Any, **kwargs: Any) -> Any:
        return eager(*args, **kwargs)

    return cast(FunctionType, through)


class _CompiledCall:
    """What calling the module does instead. The module, its class and its keys stay as they are.

    This is ``Module.compile`` but for two things. That one compiles ``_call_impl`` itself, which
    torch passes over without a word for its own classes, so that an ``nn.Sequential`` would stay
    eager; going through a function of ours it is traced. And a smaller batch, such as an epoch's
    last or an evaluation's, goes to the eager module: it would cost a compilation, and leave code
    for all sizes that is slower for the usual one.
    """

    def __init__(self, module: nn.Module, part: CompilePart, code: CodeType) -> None:
        """``code``: of ``_pass_through``, a copy for each technique that is applied. torch keeps by
        the code object what it compiled and what it gave up; the next model must not inherit it."""
        self._module = module
        self._eager: Callable[..., Any] = module._call_impl
        closure = _pass_through(self._eager).__closure__
        through = FunctionType(code, globals(), closure=closure)
        mode = part.mode if part.backend == "inductor" else None
        self._compiled: Callable[..., Any] = torch.compile(through, mode=mode, backend=part.backend)
        self._rows = 0
        """Of the largest batch that was trained on so far."""
        self.took_part = False
        """Whether compiled code was in the backward graph of a call."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        rows = _rows(args or tuple(kwargs.values()))
        if rows > self._rows and self._module.training and torch.is_grad_enabled():
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
