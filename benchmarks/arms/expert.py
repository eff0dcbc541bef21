"""A loop tuned by hand for one workload on one device, by somebody who knows what costs time.

All data lie on the device and are indexed there, a batch at a time; bf16 but for the recurrent
network, which is faster in TF32; compiled, but for the same one; the optimizer is fused, and
nothing is read back. Two variants: step by step, and the whole step as one CUDA graph.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from arms import workload
from hasten.task.batch import tensors_of

STEPS_BEFORE_CAPTURE = 5
"""Real steps, on batches of their own: compilation and the choice of kernels happen in them."""


class Expert:
    def __init__(self, setting: workload.Setting, *, graph: bool = False) -> None:
        if graph and not workload.on_cuda():
            raise workload.NotPossibleError("CUDA graphs need a CUDA device")
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True
        self._device, self.prefetched = workload.device(), 0
        self._recurrent = setting.workload == "battery"
        task = workload.make_task(setting)
        channels_last = setting.workload == "lensing"
        layout = torch.channels_last if channels_last else torch.preserve_format
        self._model = task.model.to(self._device, memory_format=layout)
        self._call = self._model if self._recurrent else torch.compile(self._model)
        self._loss = workload.loss_of(task)
        self._optimizer = workload.make_optimizer(
            self._model.parameters(), fused=True, capturable=graph
        )
        self._total = torch.zeros((), device=self._device)
        self._set_data(task, layout)
        self._train: Callable[[], Tensor] = _Captured(self._math) if graph else self._math

    def _set_data(self, task: Any, layout: torch.memory_format) -> None:
        inputs, targets = task.data.tensors
        self._inputs = inputs.to(self._device, memory_format=layout)
        self._targets = targets.to(self._device)
        self.rows = task.batch_size
        # A graph reads its batch from where it was captured.
        self._input = self._inputs[: self.rows].clone(memory_format=torch.preserve_format)
        self._target = self._targets[: self.rows].clone()
        self._order, self._place = self._shuffled(), 0

    def _shuffled(self) -> Tensor:
        return torch.randperm(len(self._targets), device=self._device)

    def step(self) -> Tensor:
        self._fetch()
        return self._train()

    def _fetch(self) -> None:
        if self._place + self.rows > len(self._order):
            self._order, self._place = self._shuffled(), 0
        rows = self._order[self._place : self._place + self.rows]
        self._place += self.rows
        self._input.copy_(self._inputs[rows])
        self._target.copy_(self._targets[rows])

    def _math(self) -> Tensor:
        # Without gradients to add to, the backward pass writes them, in a graph too.
        self._optimizer.zero_grad(set_to_none=True)
        with self._autocast():
            loss = self._loss(self._call(self._input), self._target)
        loss.backward()
        clip_grad_norm_(self._model.parameters(), workload.CLIP_NORM, foreach=True)
        self._optimizer.step()
        self._total.add_(loss.detach())
        return loss.detach()

    def _autocast(self) -> AbstractContextManager[Any]:
        # Processors without bf16 instructions compute it many times slower.
        if self._recurrent or not workload.on_cuda():
            return nullcontext()
        return torch.autocast("cuda", torch.bfloat16)

    def notes(self) -> dict[str, Any]:
        mixed = not self._recurrent and workload.on_cuda()
        return {
            "precision": "bf16 autocast" if mixed else "fp32, matmul precision high",
            "attention": "fused",
            "order": "a permutation drawn on the device",
            "resident_bytes": sum(t.nbytes for t in tensors_of((self._inputs, self._targets))),
        }


class _Captured:
    """Calls a function as it is at first, then captures it once and replays that."""

    def __init__(self, function: Callable[[], Tensor]) -> None:
        self._function = function
        self._calls = 0
        self._stream = torch.cuda.Stream()
        self._graph = torch.cuda.CUDAGraph()
        self._result: Tensor

    def __call__(self) -> Tensor:
        if self._calls < STEPS_BEFORE_CAPTURE:
            self._calls += 1
            return self._aside()
        if self._calls == STEPS_BEFORE_CAPTURE:
            self._calls += 1
            with torch.cuda.graph(self._graph):
                self._result = self._function()
        self._graph.replay()
        return self._result

    def _aside(self) -> Tensor:
        # Work before a capture belongs on another stream than the default one.
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            result = self._function()
        torch.cuda.current_stream().wait_stream(self._stream)
        return result
