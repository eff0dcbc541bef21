"""Keep less for the backward pass, and compute it again when it is needed."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import _cur_sdpa_kernel_backends, sdpa_kernel
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.task.attending import attending_by
from hasten.task.pipeline import Pipeline
from hasten.task.traits import repeated_blocks
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique

aten = torch.ops.aten
SAVED_WHEN_SELECTIVE = {
    aten.mm.default,
    aten.addmm.default,
    aten.bmm.default,
    aten.baddbmm.default,
    aten.convolution.default,
    aten._scaled_dot_product_flash_attention.default,
    aten._scaled_dot_product_efficient_attention.default,
    aten._scaled_dot_product_cudnn_attention.default,
    aten._scaled_dot_product_flash_attention_for_cpu.default,
}
"""What is dear to compute again: products, convolutions and attention on every device."""


class ActivationCheckpointingPart(Part, frozen=True, kw_only=True):
    keep: Literal["nothing", "products"] = "nothing"
    """Of a block, for its backward pass. "nothing": only its input, the whole block is computed
    again; "products": also the outputs of matrix products and attention."""


class ActivationCheckpointingTechnique(Technique[ActivationCheckpointingPart]):
    name = "activation_checkpointing"
    part = ActivationCheckpointingPart
    stage = Stage.CHECKPOINTING
    rung = Rung.BITWISE
    answers = ("memory-peak",)
    about = "Computes the model's repeated blocks again in the backward pass to keep less of them."
    helps = "Deep models whose activations fill the memory, so that a larger batch fits."
    costs = "Up to one more forward pass of the blocks a step; less where products are kept."
    limits = (
        "Needs repeated blocks; over a whole model at once it would save nothing. A block that "
        "writes to buffers or attributes, or draws from the generators of Python or NumPy, would "
        "do so twice and is refused; this is seen in its first training call, and not later."
    )
    needs = "Any CPU or GPU."
    reserved_for = "asked"

    def unsuited(self, traits: Traits) -> str | None:
        return None if traits.model.repeated_blocks else "the model has no repeated blocks"

    def to_try(self, environment: Environment, traits: Traits) -> list[ActivationCheckpointingPart]:
        return [
            ActivationCheckpointingPart(keep="products"),
            ActivationCheckpointingPart(keep="nothing"),
        ]

    def apply(self, pipeline: Pipeline, part: ActivationCheckpointingPart) -> Effect:
        blocks = repeated_blocks(pipeline.model)
        if not blocks:
            raise CannotApply("the model has no repeated blocks")
        if any("forward" in vars(block) for block in blocks):
            raise CannotApply("other code has replaced the forward of a block")
        switch = _Switch()
        calls = {block: _Checkpointed(block, part.keep, switch) for block in blocks}
        for block, call in calls.items():
            block.forward = call

        def undo() -> None:
            switch.is_on = False
            for block, call in calls.items():
                if vars(block).get("forward") is call:
                    del block.forward

        def did_run() -> str | None:
            idle = [block for block, call in calls.items() if not call.took_part]
            return f"{len(idle)} of {len(calls)} blocks were not called" if idle else None

        names = ", ".join(sorted({type(block).__name__ for block in blocks}))
        why = f"{len(blocks)} blocks ({names}) keep {part.keep}"
        return Effect(why=why, undo=undo, did_run=did_run)


class _Switch:
    """One for all blocks and for those of copies of the model, which undoing does not find."""

    is_on = True

    def __deepcopy__(self, memo: Any) -> "_Switch":
        return self


class _Checkpointed:
    """A block's forward, remembered by its input."""

    def __init__(self, block: nn.Module, keep: str, switch: _Switch) -> None:
        self._block, self._switch = block, switch
        self._forward: Callable[..., Any] = block.forward
        self._more: dict[str, Any] = {"context_fn": _contexts} if keep == "products" else {}
        self._modes: set[bool] = set()
        """Training or evaluating: those in which a call was watched."""
        self.took_part = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._switch.is_on or not torch.is_grad_enabled():
            return self._forward(*args, **kwargs)
        call = self._forward
        if not torch.compiler.is_compiling():  # a compiler sees by itself what happens once only
            is_first = self._block.training not in self._modes
            self._modes.add(self._block.training)
            call = _Recomputed(self._block, self._forward, is_first=is_first)
        self.took_part = True
        return checkpoint(call, *args, use_reentrant=False, **self._more, **kwargs)


class _Recomputed:
    """One forward of a block: the second call computes the same again, and leaves no other trace.

    So statistics of BatchNorm are moved once, and attention takes the kernel that it took before.
    """

    def __init__(self, block: nn.Module, forward: Callable[..., Any], *, is_first: bool) -> None:
        self._block, self._forward, self._is_first = block, forward, is_first
        self._attention = nn.functional.scaled_dot_product_attention
        self._kernels = _cur_sdpa_kernel_backends()
        self._was_called = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._was_called:
            with (
                _on_copies(_statistics(self._block)),
                attending_by(self._attention),
                sdpa_kernel(self._kernels),
            ):
                return self._forward(*args, **kwargs)
        self._was_called = True
        if self._is_first:
            return self._watched(*args, **kwargs)
        return self._forward(*args, **kwargs)

    def _watched(self, *args: Any, **kwargs: Any) -> Any:
        held, draws = _held_by(self._block), _draws_on_host()
        before = {place: _form(value) for place, value in held.items()}
        output = self._forward(*args, **kwargs)
        after = {place: _form(value) for place, value in _held_by(self._block).items()}
        for module, name in before.keys() | after.keys():
            if before.get((module, name)) != after.get((module, name)):
                what = f"{type(module).__name__}.{name}"
                raise CannotApply(f"the block writes to {what}, and would do so twice")
        if _draws_on_host() != draws:
            raise CannotApply("the block draws random numbers of Python or NumPy, and would twice")
        return output


def _held_by(block: nn.Module) -> dict[tuple[nn.Module, str], Any]:
    """Attributes and buffers of all its modules, but for statistics, which are known."""
    known = set(_statistics(block))
    return {
        (module, name): value
        for module in block.modules()
        for held in (vars(module), {} if module in known else module._buffers)
        for name, value in held.items()
    }


def _form(value: Any) -> Any:
    """Differs where the value was written to, or another was put in its place."""
    if isinstance(value, bool | int | float | complex | str | bytes | None):
        return type(value), value
    if isinstance(value, Tensor):
        return id(value), value._version
    return id(value), len(value) if isinstance(value, list | dict | set) else None


def _draws_on_host() -> tuple[Any, ...]:
    """Checkpointing puts back the generators of torch, and no others."""
    state = np.random.get_state(legacy=False)["state"]
    return random.getstate(), state["pos"], state["key"].tobytes()


def _statistics(block: nn.Module) -> list[nn.Module]:
    norms = nn.modules.batchnorm._NormBase
    return [module for module in block.modules() if isinstance(module, norms)]


@contextmanager
def _on_copies(modules: list[nn.Module]) -> Iterator[None]:
    """What is written to the modules' buffers is forgotten."""
    held = [(module, dict(module._buffers)) for module in modules]
    for module, buffers in held:
        with _disable_current_modes():  # one that counts what is computed again sees no copy
            copies = {name: each.clone() for name, each in buffers.items() if each is not None}
        module._buffers.update(copies)
    try:
        yield
    finally:
        for module, buffers in held:
            module._buffers.update(buffers)


def _policy(context: Any, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    saved = operation in SAVED_WHEN_SELECTIVE
    return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE


_contexts = partial(create_selective_checkpoint_contexts, _policy)
