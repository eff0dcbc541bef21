"""A recurrent model's zero state without an allocation and a copy for each batch."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.task import batch as batches
from hasten.task.autograd import nodes_of
from hasten.task.pipeline import Pipeline
from hasten.task.probing import leaving_no_trace
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique


class RecurrentStatePart(Part, frozen=True, kw_only=True):
    state: Literal["none", "kept"] = "none"
    """"none": the layer is given no state, which is zeros made where they are used; "kept": zeros
    that stay on the device, for models that insist on a state."""


class RecurrentStateTechnique(Technique[RecurrentStatePart]):
    name = "recurrent_state"
    part = RecurrentStatePart
    stage = Stage.LAYOUT
    rung = Rung.BITWISE
    answers = ("recurrent-state", "recurrent", "sync-bound")
    about = "Gives a recurrent layer no state instead of zeros made and copied for each batch."
    helps = "Recurrent models on a GPU: a copy from the host waits, and no graph can hold it."
    costs = "Nothing."
    limits = (
        "Only for tasks whose state begins anew with each batch (Task.state_resets='batch'), and "
        "begins as zeros; both are checked, the zeros at the first batch of each size. Later "
        "batches are not: a state that is made of what a batch holds must not use this. Before a "
        "model is first given no state, one evaluation with and one without zeros must be equal."
    )
    needs = "Any CPU or GPU."

    def unsuited(self, traits: Traits) -> str | None:
        return None if traits.model.resets_state else "no state begins anew with each batch"

    def to_try(self, environment: Environment, traits: Traits) -> list[RecurrentStatePart]:
        return [RecurrentStatePart(), RecurrentStatePart(state="kept")]

    def apply(self, pipeline: Pipeline, part: RecurrentStatePart) -> Effect:
        initial = pipeline.initial_state
        if initial is None:
            raise CannotApply("the task has no recurrent state")
        if pipeline.state_resets != "batch":
            raise CannotApply("the state is carried from batch to batch, which must stay so")
        zeros: dict[int, Any] = {}
        forward = pipeline.forward  # before it is compiled or cast, as the user wrote it

        def state_of(batch: Any) -> Any:
            rows = batches.rows_in(batch)
            if rows not in zeros:
                state = _checked(batches.move(initial(batch), pipeline.device))
                if part.state == "none":
                    if not zeros:
                        _check_without(forward, pipeline.model, batch, state)
                    state = None
                zeros[rows] = state
            return zeros[rows]

        def undo() -> None:
            pipeline.initial_state = initial

        pipeline.initial_state = state_of
        given = "no state" if part.state == "none" else "zeros that stay on the device"
        return Effect(why=f"the model is given {given}", undo=undo)


def _checked(state: Any) -> Any:
    """Once for each size of batch: the only time that the device is waited for."""
    tensors: list[Tensor] = batches.tensors_of(state)
    if not tensors or any(bool(each.any()) or each.requires_grad for each in tensors):
        raise CannotApply("the state does not begin as zeros")
    return state


def _check_without(forward: Callable[..., Any], model: nn.Module, batch: Any, zeros: Any) -> None:
    """No state must mean zeros to the model, and bring no parameter in that zeros do not."""
    with leaving_no_trace(model), torch.enable_grad():
        given = forward(model, batch, batches.detach(zeros))
    with leaving_no_trace(model), torch.enable_grad():
        try:
            none = forward(model, batch, None)
        except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise CannotApply(f"the model does not do without a state: {error}") from error
    one, other = batches.tensors_of(given), batches.tensors_of(none)
    if len(one) != len(other) or not all(map(torch.equal, one, other)):
        raise CannotApply("the model computes something else without a state than from zeros")
    if _leaves(given) != _leaves(none):
        raise CannotApply("the model learns something else without a state than from zeros")


def _leaves(output: Any) -> set[int]:
    """What gradients flow to."""
    variables = (getattr(node, "variable", None) for node in nodes_of(output))
    return {id(variable) for variable in variables if variable is not None}
