"""Compile the model: whole, with its loss, or block by block; in place."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from torch import nn

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.records.trial import Conflict
from hasten.step.compiled import CompileCounts, CompiledCall, code_of_its_own
from hasten.task.pipeline import Pipeline
from hasten.task.traits import repeated_blocks
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique

CACHE = "TORCHINDUCTOR_CACHE_DIR"


class CompilePart(Part, frozen=True, kw_only=True):
    mode: Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"] = (
        "default"
    )
    """"reduce-overhead" adds CUDA graphs; "max-autotune" those, and times many kernels."""
    regions: Literal["whole", "with_loss", "blocks"] = "whole"
    """"whole": the model; "with_loss": the model and the loss of its output as one; "blocks": each
    of the model's repeated blocks by itself, which compiles once for all."""
    backend: Literal["inductor", "aot_eager", "eager"] = "inductor"
    """"aot_eager" and "eager" trace without generating code, to find out what fails."""
    cache_dir: str = ""
    """Where compiled code is kept for later runs; empty: where torch keeps it."""

    def __post_init__(self) -> None:
        if self.backend != "inductor" and self.mode != "default":
            raise ValueError(
                f'mode = "{self.mode}" cannot be beside backend = "{self.backend}",'
                ' which has only "default"'
            )


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
    conflicts = (
        Conflict(
            beside="whole_step_graph",
            settings={"mode": ("reduce-overhead", "max-autotune")},
            why="it captures graphs of its own, and these cannot lie within that of a whole step",
        ),
    )

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
        modules = repeated_blocks(pipeline.model) if part.regions == "blocks" else [pipeline.model]
        if not modules:
            raise CannotApply("the model has no repeated blocks")
        if part.regions == "with_loss" and pipeline.forward is pipeline.model:
            raise CannotApply("there is no loss here to compile the model with")
        if any(module._compiled_call_impl is not None for module in modules):
            raise CannotApply("the model is compiled already")
        put_cache_back, counts = _keep_cache_in(part.cache_dir), CompileCounts()
        if part.regions == "with_loss":
            calls, put_calls_back = _compile_forward(pipeline, part, counts)
        else:
            calls, put_calls_back = _compile_modules(modules, part, counts)

        def undo() -> None:
            put_cache_back()
            put_calls_back()

        def did_run() -> str | None:
            counts.first_step_is_done()
            took_part = any(call.took_part for call in calls)
            if part.backend == "eager":  # it leaves no code in the backward graph
                took_part = counts.graphs() > 0
            return None if took_part else "torch compiled no part of the model"

        return Effect(
            why=lambda: f"{_shape(part, len(calls))}: {counts}",
            undo=undo,
            did_run=did_run,
            problem=counts.storm,
            remember=lambda: [call.rows for call in calls],
            recall=lambda rows: _recall(calls, rows),
        )


def _recall(calls: list[CompiledCall], rows: list[int]) -> None:
    for call, each in zip(calls, rows, strict=True):
        call.rows, call.took_part = each, True  # it had, in another process


def _options(part: CompilePart) -> dict[str, Any]:
    mode = part.mode if part.backend == "inductor" else None
    return {"mode": mode, "backend": part.backend}


def _compile_modules(
    modules: list[nn.Module], part: CompilePart, counts: CompileCounts
) -> tuple[list[CompiledCall], Callable[[], None]]:
    """In place: the modules, their classes and their keys stay as they are."""
    code, calls = code_of_its_own(), {}
    for module in modules:
        calls[module] = CompiledCall(module._call_impl, module, code, counts, **_options(part))
        module._compiled_call_impl = calls[module]

    def undo() -> None:
        for module, call in calls.items():
            if module._compiled_call_impl is call:  # and not one that the user put there since
                del module._compiled_call_impl  # the class has None

    return list(calls.values()), undo


def _compile_forward(
    pipeline: Pipeline, part: CompilePart, counts: CompileCounts
) -> tuple[list[CompiledCall], Callable[[], None]]:
    before = pipeline.forward
    call = CompiledCall(before, pipeline.model, code_of_its_own(), counts, **_options(part))
    pipeline.forward = call

    def undo() -> None:
        pipeline.forward = before

    return [call], undo


def _shape(part: CompilePart, calls: int) -> str:
    shapes = {"whole": "whole model", "with_loss": "model and loss", "blocks": f"{calls} blocks"}
    by = "" if part.backend == "inductor" else f", backend {part.backend}"
    return f"{shapes[part.regions]}, mode {part.mode}{by}"


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
