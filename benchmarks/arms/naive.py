"""The plain loop: single precision, a loader with two workers, blocking copies, two reads a step.

Slow on purpose, as the scripts that it stands for.
"""

from typing import Any

from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from arms import workload
from hasten.task import batch as batches


class Naive:
    def __init__(self, setting: workload.Setting) -> None:
        task = workload.make_task(setting)
        workload.use_attention_by_hand(task.model)
        self._device = workload.device()
        self._model = task.model.to(self._device)
        self.rows, self._loss = task.batch_size, workload.loss_of(task)
        self._initial_state = task.initial_state
        self._optimizer = workload.make_optimizer(self._model.parameters())
        loader = workload.make_loader(task, workload.PLAIN_WORKERS, persistent=False)
        self._batches = workload.endless(loader)
        self.prefetched = workload.PLAIN_WORKERS * workload.PREFETCH
        self._total, self._shown = 0.0, ""

    def step(self) -> Tensor:
        inputs, target = next(self._batches)
        inputs, target = inputs.to(self._device), target.to(self._device)
        self._optimizer.zero_grad()
        loss = self._loss(self._forward(inputs), target)
        loss.backward()
        clip_grad_norm_(self._model.parameters(), workload.CLIP_NORM)
        self._optimizer.step()
        self._total += loss.item()
        self._shown = f"loss {loss.item():.4f}"
        return loss.detach()

    def _forward(self, inputs: Tensor) -> Tensor:
        if self._initial_state is None:
            return self._model(inputs)
        # Made on the host and copied for each batch, as is often seen.
        return self._model(inputs, batches.move(self._initial_state([inputs]), self._device))

    def notes(self) -> dict[str, Any]:
        return {"precision": "fp32", "attention": "by hand", "order": "the loader's shuffle"}
