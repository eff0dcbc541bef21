"""A recurrent model's zero state without an allocation and a copy for each batch."""

from typing import Any, Literal

from torch import Tensor

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.task import batch as batches
from hasten.task.pipeline import Pipeline
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
    answers = ("recurrent-state", "sync-bound")
    about = "Gives a recurrent layer no state instead of zeros made and copied for each batch."
    helps = "Recurrent models on a GPU: a copy from the host waits, and no graph can hold it."
    costs = "Nothing."
    limits = (
        "Only for tasks whose state begins anew with each batch (Task.state_resets='batch'), and "
        "begins as zeros; both are checked. A state that is carried over batches is left alone."
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

        def state_of(batch: Any) -> Any:
            rows = batches.rows_in(batch)
            if rows not in zeros:
                zeros[rows] = _checked(batches.move(initial(batch), pipeline.device), part.state)
            return zeros[rows]

        def undo() -> None:
            pipeline.initial_state = initial

        pipeline.initial_state = state_of
        given = "no state" if part.state == "none" else "zeros that stay on the device"
        return Effect(why=f"the model is given {given}", undo=undo)


def _checked(state: Any, given: str) -> Any:
    """Once for each size of batch: the only time that the device is waited for."""
    tensors: list[Tensor] = batches.tensors_of(state)
    if not tensors or any(bool(each.any()) or each.requires_grad for each in tensors):
        raise CannotApply("the state does not begin as zeros")
    return None if given == "none" else state
