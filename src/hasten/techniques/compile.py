"""Compile the model, in place."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.task import batch as batches
from hasten.task.pipeline import Pipeline
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique


class CompilePart(Part, frozen=True, kw_only=True):
    mode: Literal["default", "reduce-overhead", "max-autotune"] = "default"


class CompileTechnique(Technique[CompilePart]):
    name = "compile"
    part = CompilePart
    stage = Stage.COMPILE
    rung = Rung.ROUNDING
    answers = ("eager-model",)
    about = "torch.compile of the model in place; partial batches run eagerly."
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

    def apply(self, pipeline: Pipeline, part: CompilePart) -> Effect:
        model = pipeline.model
        if model._compiled_call_impl is not None:
            raise CannotApply("the model is compiled already")
        call = _CompiledCall(model, part.mode)
        model._compiled_call_impl = call

        def undo() -> None:
            if model._compiled_call_impl is call:  # and not one that the user put there since
                del model._compiled_call_impl  # the class has None

        def did_run() -> str | None:
            return None if call.took_part else "torch compiled no part of the model"

        return Effect(why=f"mode {part.mode}", undo=undo, did_run=did_run)


class _CompiledCall:
    """What calling the model does instead. The module, its class and its keys stay as they are.

    This is ``Module.compile`` but for two things. That one compiles ``_call_impl`` itself, which
    torch passes over without a word for its own classes, so that an ``nn.Sequential`` would stay
    eager; going through a function of ours it is traced. And a smaller batch, such as an epoch's
    last or an evaluation's, goes to the eager model: it would cost a compilation, and leave code
    for all sizes that is slower for the usual one.
    """

    def __init__(self, model: nn.Module, mode: str) -> None:
        eager: Callable[..., Any] = model._call_impl
        self._model = model

        def through(*args: Any, **kwargs: Any) -> Any:
            return eager(*args, **kwargs)

        self._eager = eager
        self._compiled: Callable[..., Any] = torch.compile(through, mode=mode)
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
            self.took_part = _has_compiled_backward(output)
        return output


def _rows(values: tuple[Any, ...]) -> int:
    # The first argument is nearly always the tensor, and then there is nothing to walk.
    first = values[0] if values and isinstance(values[0], Tensor) else None
    tensor = first if first is not None else next(iter(batches.tensors_of(values)), None)
    return tensor.size(0) if tensor is not None and tensor.dim() else 0


def _has_compiled_backward(output: Any) -> bool:
    """Walk the autograd graph: torch.compile is lazy and may give up without a word."""
    todo = [tensor.grad_fn for tensor in batches.tensors_of(output)]
    seen = set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        if "CompiledFunction" in node.name():
            return True
        seen.add(node)
        todo.extend(following for following, _ in node.next_functions)
    return False
