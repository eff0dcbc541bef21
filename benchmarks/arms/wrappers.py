"""The two wrappers around a training loop that are used most, set up as their documentation says.

Both with bf16, eight loader workers that live on, the fused optimizer and fused attention.
"""

import importlib
from types import ModuleType
from typing import Any

from torch import Tensor

from arms import workload

NOTES = {"attention": "fused", "workers": workload.MANY_WORKERS}


class Fabric:
    def __init__(self, setting: workload.Setting) -> None:
        fabric = import_first("lightning_fabric", "lightning.fabric")
        self._precision = "bf16-mixed" if workload.on_cuda() else "32-true"
        self._fabric = fabric.Fabric(
            accelerator=workload.device().type, devices=1, precision=self._precision
        )
        self._fabric.launch()
        self._task = workload.make_task(setting)
        self.rows, self._loss = self._task.batch_size, workload.loss_of(self._task)
        optimizer = workload.make_optimizer(self._task.model.parameters(), fused=True)
        self._model, self._optimizer = self._fabric.setup(self._task.model, optimizer)
        loader = workload.make_loader(self._task, workload.MANY_WORKERS, persistent=True)
        self._batches = workload.endless(self._fabric.setup_dataloaders(loader))
        self.prefetched = workload.MANY_WORKERS * workload.PREFETCH
        self._version = fabric.__version__

    def step(self) -> Tensor:
        inputs, target = next(self._batches)
        self._optimizer.zero_grad()
        loss = self._loss(self._model(inputs), target)
        self._fabric.backward(loss)
        self._fabric.clip_gradients(self._model, self._optimizer, max_norm=workload.CLIP_NORM)
        self._optimizer.step()
        return loss.detach()

    def notes(self) -> dict[str, Any]:
        return {
            **NOTES,
            "version": self._version,
            "precision": self._precision,
            "order": "the loader's shuffle, as Fabric sets it up",
        }


class Accelerate:
    def __init__(self, setting: workload.Setting) -> None:
        accelerate = import_first("accelerate")
        self._precision = "bf16" if workload.on_cuda() else "no"
        self._accelerator = accelerate.Accelerator(
            mixed_precision=self._precision, dynamo_backend="inductor", cpu=not workload.on_cuda()
        )
        self._task = workload.make_task(setting)
        self.rows, self._loss = self._task.batch_size, workload.loss_of(self._task)
        self._model, self._optimizer, loader = self._accelerator.prepare(
            self._task.model,
            workload.make_optimizer(self._task.model.parameters(), fused=True),
            workload.make_loader(self._task, workload.MANY_WORKERS, persistent=True),
        )
        self._batches = workload.endless(loader)
        self.prefetched = workload.MANY_WORKERS * workload.PREFETCH
        self._version = accelerate.__version__

    def step(self) -> Tensor:
        inputs, target = next(self._batches)
        self._optimizer.zero_grad()
        loss = self._loss(self._model(inputs), target)
        self._accelerator.backward(loss)
        self._accelerator.clip_grad_norm_(self._model.parameters(), workload.CLIP_NORM)
        self._optimizer.step()
        return loss.detach()

    def notes(self) -> dict[str, Any]:
        return {
            **NOTES,
            "version": self._version,
            "precision": self._precision,
            "order": "the loader's shuffle, as Accelerate sets it up",
        }


def import_first(*names: str) -> ModuleType:
    for name in names:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name.split(".")[0]:
                raise  # it is there, and something that it needs is not
    raise workload.NotInstalledError(f"there is no package {' or '.join(names)}")
