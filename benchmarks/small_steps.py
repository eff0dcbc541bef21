"""Ways to run one small training step, whose cost is the host's; nothing is loaded or copied.

Each maker returns a function that does one step on the same batch, which lies on the device.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, AdamW, Optimizer

from arms import workload
from arms.wrappers import import_first
from hasten.records.plan import NAIVE, Plan
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline

ROWS, WIDTH = 16, 64
STEPS_BEFORE_CAPTURE = 3
GRAPH_PLAN = Plan(parts={"fused_optimizer": {}, "whole_step_graph": {}})


@dataclass
class Way:
    step: Callable[[], Any]
    notes: dict[str, Any] = field(default_factory=dict)
    """Filled in by the time that the steps have run."""
    run: Run | None = None

    def describe(self) -> dict[str, Any]:
        applied = self.run.applied if self.run is not None else []
        return {**self.notes, "applied": msgspec.to_builtins(applied)}


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(WIDTH, WIDTH).to(workload.device())


def make_batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    inputs, target = torch.randn(2, ROWS, WIDTH, generator=generator).to(workload.device())
    return inputs, target


def make_plain_optimizer(model: nn.Module) -> SGD:
    return SGD(model.parameters(), lr=1e-3)


def by_hand() -> Way:
    model = make_model()
    return _loop(model, make_plain_optimizer(model))


def fused_by_hand() -> Way:
    model = make_model()
    return _loop(model, SGD(model.parameters(), lr=1e-3, fused=True))


def _loop(model: nn.Module, optimizer: Optimizer) -> Way:
    inputs, target = make_batch()

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Way(step)


def by_hand_again() -> Way:
    """The same loop once more: what it seems to add is the error of the measurement."""
    return by_hand()


def hasten() -> Way:
    model = make_model()
    return _run(model, make_plain_optimizer(model), NAIVE)


def hasten_fused() -> Way:
    model = make_model()
    return _run(model, make_plain_optimizer(model), Plan(parts={"fused_optimizer": {}}))


def _run(model: nn.Module, optimizer: Optimizer, plan: Plan) -> Way:
    batch = make_batch()
    run = Run(Pipeline.from_loop(model, [batch], optimizer, F.mse_loss), plan)
    return Way(lambda: run.step(batch), run=run)


def fabric() -> Way:
    module = import_first("lightning_fabric", "lightning.fabric")
    made = module.Fabric(accelerator=workload.device().type, devices=1, precision="32-true")
    made.launch()
    plain, (inputs, target) = make_model(), make_batch()
    model, optimizer = made.setup(plain, make_plain_optimizer(plain))

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), target)
        made.backward(loss)
        optimizer.step()
        return loss.detach()

    return Way(step, {"version": module.__version__})


def accelerate() -> Way:
    module = import_first("accelerate")
    made = module.Accelerator(mixed_precision="no", cpu=not workload.on_cuda())
    plain, (inputs, target) = make_model(), make_batch()
    model, optimizer = made.prepare(plain, make_plain_optimizer(plain))

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), target)
        made.backward(loss)
        optimizer.step()
        return loss.detach()

    return Way(step, {"version": module.__version__})


def graph_by_hand() -> Way:
    """As torch's documentation has it: the batch is copied to where the graph reads it."""
    _refuse_without_cuda()
    model, batch = make_model(), make_batch()
    inputs, target = (tensor.clone() for tensor in batch)
    optimizer = AdamW(model.parameters(), lr=1e-3, fused=True, capturable=True)

    def train() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(model(inputs), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    graph, loss = _capture(train)

    def step() -> Tensor:
        inputs.copy_(batch[0])
        target.copy_(batch[1])
        graph.replay()
        return loss

    return Way(step)


def _capture(train: Callable[[], Tensor]) -> tuple[torch.cuda.CUDAGraph, Tensor]:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(STEPS_BEFORE_CAPTURE):
            train()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = train()
    return graph, loss


def hasten_graph() -> Way:
    _refuse_without_cuda()
    model = make_model()
    return _run(model, AdamW(model.parameters(), lr=1e-3), GRAPH_PLAN)


def _refuse_without_cuda() -> None:
    if not workload.on_cuda():
        raise workload.NotPossibleError("CUDA graphs need a CUDA device")
