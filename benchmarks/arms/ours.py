"""Hasten's step engine, with a plan written by hand or with the one that tune has found."""

from typing import Any

import msgspec
from torch import Tensor
from torch.utils.data import DataLoader

from arms import workload
from hasten.records.plan import Plan, RawPart
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline

_EVERYWHERE: dict[str, RawPart] = {
    "resident_data": {},
    "matmul_precision": {"precision": "high"},
    "fused_optimizer": {},
    "whole_step_graph": {},
}
_COMPILED: dict[str, RawPart] = {
    **_EVERYWHERE,
    "mixed_precision": {"dtype": "bf16"},
    "compile": {},
}
PLANS: dict[str, dict[str, RawPart]] = {
    "bloom": _COMPILED,
    # A recurrent network: torch does not compile it, and it is slower in bf16.
    "battery": {**_EVERYWHERE, "recurrent_state": {}},
    "lensing": {**_COMPILED, "convolution_search": {}, "memory_format": {}},
    "microbiome": _COMPILED,
    "gpt": _COMPILED,
}


class Ours:
    def __init__(self, setting: workload.Setting) -> None:
        parts = PLANS[setting.workload] if setting.plan is None else setting.plan
        self._plan = Plan(parts=parts)
        task = workload.as_given(workload.make_task(setting))
        self._run = Run(Pipeline.from_task(task), self._plan)
        self._batches = self._run.endless()
        self.rows = task.batch_size

    @property
    def prefetched(self) -> int:
        loader = self._run.pipeline.loader
        if not isinstance(loader, DataLoader):
            return 0
        return loader.num_workers * (loader.prefetch_factor or workload.PREFETCH)

    def step(self) -> Tensor:
        return self._run.step(next(self._batches))

    def notes(self) -> dict[str, Any]:
        return {
            "plan": self._plan.parts,
            "applied": [msgspec.to_builtins(each) for each in self._run.applied],
            "attention": "fused",
            "order": "the loader's shuffle, unless a part of the plan says otherwise",
        }
