"""Make sure that attention runs in a fused kernel, and say which one did."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import torch
from torch import nn
from torch.autograd import profiler_legacy
from torch.nn.attention import SDPBackend, sdpa_kernel

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.step.masks import MaskReader
from hasten.task.attending import attending_by
from hasten.task.pipeline import Pipeline
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
OPERATIONS = {
    "aten::_scaled_dot_product_flash_attention": "flash",
    "aten::_scaled_dot_product_flash_attention_for_cpu": "flash",
    "aten::_scaled_dot_product_efficient_attention": "efficient",
    "aten::_scaled_dot_product_cudnn_attention": "cudnn",
    "aten::_scaled_dot_product_attention_math": "math",
}
PROFILED_CALL = 2
"""The first may compile."""


class AttentionPart(Part, frozen=True, kw_only=True):
    kernel: Literal["any", "flash", "efficient", "cudnn"] = "any"
    """"any": the fused kernel that torch chooses."""
    masks: Literal["keep", "simplify"] = "keep"
    """"simplify": a mask that the model holds and that is causal, or hides nothing, is told to the
    kernel in so many words instead of as a matrix, which the fastest kernels do not take."""


class AttentionTechnique(Technique[AttentionPart]):
    name = "attention"
    part = AttentionPart
    stage = Stage.ATTENTION
    rung = Rung.ROUNDING
    answers = ("unfused-attention", "eager-model", "memory-bound", "compute-bound")
    about = "Holds torch's attention to a fused kernel, reads masks for it, and checks which ran."
    helps = "Models that call scaled_dot_product_attention or nn.MultiheadAttention."
    costs = (
        "Nothing a step; the second step is profiled, to see which kernel ran, or a later one "
        "where a profiler of your own is active."
    )
    limits = (
        "Attention written by hand is left alone. Masks that are made anew in each forward, those "
        "that are trained, and those of compiled models, are kept as they are. That a mask was "
        "written to through its `data` is not noticed."
    )
    needs = "Any CPU or GPU; the flash kernel of a GPU takes 16-bit inputs only."
    untried = "it is given no mask, so that torch chooses the same kernel by itself"

    def unsuited(self, traits: Traits) -> str | None:
        if "fused" in traits.model.attention:
            return None
        if "hand_written" in traits.model.attention:
            return "its attention is written by hand; call scaled_dot_product_attention instead"
        return "the model has no attention that is known"

    def to_try(self, environment: Environment, traits: Traits) -> list[AttentionPart]:
        unmasked = traits.model.masks_attention is False
        return [] if unmasked else [AttentionPart(masks="simplify")]

    def apply(self, pipeline: Pipeline, part: AttentionPart) -> Effect:
        if pipeline.device.type == "cpu" and part.kernel not in ("any", "flash"):
            raise CannotApply(f"the {part.kernel} kernel is for CUDA devices")
        before = pipeline.forward
        reader = MaskReader(pipeline.model) if part.masks == "simplify" else None
        watch = _KernelWatch()

        def forward(model: nn.Module, *args: Any) -> Any:
            with ExitStack() as stack:
                if part.kernel != "any":
                    stack.enter_context(sdpa_kernel(BACKENDS[part.kernel]))
                if reader is not None:
                    stack.enter_context(attending_by(reader.attend))
                stack.enter_context(watch.watching())
                return before(model, *args)

        def undo() -> None:
            pipeline.forward = before

        def words() -> str:
            simplified = f", {reader.simplified} masks simplified" if reader else ""
            return f"kernels: {watch}{simplified}"

        pipeline.forward = forward
        return Effect(why=words, undo=undo, problem=watch.problem)


def _profile() -> Any:
    """The older profiler of torch: the newer one writes lines to the user's terminal."""
    return profiler_legacy.profile()  # type: ignore[no-untyped-call]


class _KernelWatch:
    """Which attention kernels ran, by torch's profiler over one forward pass."""

    def __init__(self) -> None:
        self._calls = 0
        self._seen: set[str] | None = None

    def __str__(self) -> str:
        if self._seen is None:
            return "not seen yet"
        return ", ".join(sorted(self._seen)) or "none"

    @contextmanager
    def watching(self) -> Iterator[None]:
        if self._seen is not None or not torch.is_grad_enabled():
            yield
            return
        self._calls += 1
        # torch has one profiler at a time, and the user's goes first.
        if self._calls < PROFILED_CALL or torch._C._autograd._profiler_enabled():
            yield
            return
        with _profile() as profile:
            yield
        names = {event.name for event in profile.function_events}
        self._seen = {OPERATIONS[name] for name in names if name in OPERATIONS}

    def problem(self) -> str | None:
        if self._seen is None or self._seen - {"math"}:
            return None
        if "math" in self._seen:
            return "torch found no fused kernel for these inputs and ran its plain mathematics"
        return "the model calls no scaled_dot_product_attention"
