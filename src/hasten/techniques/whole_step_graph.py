"""The whole step, from gathering the batch to the update, as one CUDA graph."""

from collections.abc import Callable

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CyclicLR, OneCycleLR

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.traits import Traits
from hasten.step.capture import takes_rate_as_tensor
from hasten.step.eager import EagerStep
from hasten.step.graph import GraphStep
from hasten.step.optimizers import set_flags
from hasten.task.pipeline import Pipeline
from hasten.techniques.technique import CannotApply, Effect, Part, Stage, Technique

CAPTURABLE_WHEN_FUSED = (torch.optim.SGD, torch.optim.Adagrad)


class WholeStepGraphPart(Part, frozen=True, kw_only=True):
    pass


class WholeStepGraphTechnique(Technique[WholeStepGraphPart]):
    name = "whole_step_graph"
    part = WholeStepGraphPart
    stage = Stage.GRAPH
    rung = Rung.ROUNDING
    answers = ("launch-bound", "host-bound")
    about = "Captures gather, forward, backward, unscale, clip and update as one CUDA graph."
    helps = "Small kernels: the host takes longer to launch a step than the device to run it."
    costs = (
        "Three eager steps and a capture at the start; memory of its own for what a step "
        "allocates. The learning rate is read from the device in fp32, which rounds it."
    )
    limits = (
        "Refused, with the reason, where the step waits for the device, draws random numbers on "
        "the host or changes Python state, where batches have no usual shape, an optimizer cannot "
        "be captured, or a scheduler moves more than the learning rate. Partial batches run "
        "eagerly. "
        "Not seen after the capture: a Python branch that turns another way, a submodule's mode "
        "or dropout rate, hooks, a replaced submodule. A pinned batch must not be filled again "
        "before its step has run."
    )
    needs = "A CUDA device."
    reserved_for = "ultra"
    brings = ("recurrent_state", "fused_optimizer", "resident_data")
    # It can be captured only with the first two, and is soon shorter than any loader takes.

    def unavailable(self, environment: Environment) -> str | None:
        return None if environment.device.kind == "cuda" else "there is no CUDA device"

    def to_try(self, environment: Environment, traits: Traits) -> list[WholeStepGraphPart]:
        return [WholeStepGraphPart()]

    def apply(self, pipeline: Pipeline, part: WholeStepGraphPart) -> Effect:
        reason = _cannot_capture(pipeline)
        if reason:
            raise CannotApply(reason)
        before = pipeline.step
        assert isinstance(before, EagerStep)  # held by _cannot_capture
        undos = [_make_capturable(each) for each in pipeline.optimizers]
        graph = GraphStep(before)
        pipeline.step, pipeline.replay = graph, graph.replay

        def undo() -> None:
            pipeline.step, pipeline.replay = before, None
            graph.close()
            for one in undos:
                one()

        return Effect(
            why=graph.words,
            undo=undo,
            did_run=lambda: graph.refusal,
            problem=lambda: graph.refusal,
            is_warming=lambda: graph.is_warming,
        )


def _cannot_capture(pipeline: Pipeline) -> str | None:
    if pipeline.device.type != "cuda":
        return "there is no CUDA device"
    if not isinstance(pipeline.step, EagerStep):
        return "another technique has put a step of its own in the place of the plain one"
    for optimizer in pipeline.optimizers:
        reason = _not_capturable(optimizer, pipeline)
        if reason:
            return reason
    for scheduler in pipeline.schedulers:
        if isinstance(scheduler, OneCycleLR | CyclicLR) and scheduler.cycle_momentum:
            name = type(scheduler).__name__
            return f"{name} moves the momentum too, which a graph bakes in (cycle_momentum=False)"
    return None


def _not_capturable(optimizer: Optimizer, pipeline: Pipeline) -> str | None:
    name = type(optimizer).__name__
    fused = all(group.get("fused") for group in optimizer.param_groups)
    if pipeline.scaler is not None and not fused:
        return f"the scaler waits for the device before a {name} that is not fused"
    if "capturable" not in optimizer.defaults and not (
        fused and isinstance(optimizer, CAPTURABLE_WHEN_FUSED)
    ):
        return f"{name} cannot be captured" + (
            " unless it is fused" if isinstance(optimizer, CAPTURABLE_WHEN_FUSED) else ""
        )
    if any(_is_on_host(group.get("lr")) for group in optimizer.param_groups):
        return f"the learning rate of {name} is a tensor on the host, which a graph cannot read"
    if pipeline.schedulers and not takes_rate_as_tensor(optimizer):
        return f"a scheduler moves the rate of {name}, which takes none from the device"
    return None


def _is_on_host(rate: object) -> bool:
    return isinstance(rate, torch.Tensor) and rate.device.type == "cpu"


def _make_capturable(optimizer: Optimizer) -> Callable[[], None]:
    if "capturable" not in optimizer.defaults:
        return lambda: None
    told = "_warned_capturable_if_run_uncaptured"  # the steps before the capture are meant so
    before = vars(optimizer).get(told)
    vars(optimizer)[told] = True
    undo_flags = set_flags(optimizer, capturable=True)

    def undo() -> None:
        undo_flags()
        if before is None:
            vars(optimizer).pop(told, None)

    return undo
