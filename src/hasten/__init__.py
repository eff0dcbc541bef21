"""Makes PyTorch training faster and smaller, and proves it.

Public names are resolved when they are first used: ``import hasten`` does not import torch.
"""

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from hasten.config import MemoryFormat as MemoryFormat
    from hasten.config import OptimizationLevel as OptimizationLevel
    from hasten.config import PerformanceConfig as PerformanceConfig
    from hasten.data.cache.dataset_cache import DatasetCache as DatasetCache
    from hasten.data.choosing.optimizer import DataPipelineOptimizer as DataPipelineOptimizer
    from hasten.data.choosing.optimizer import (
        create_optimized_dataloader as create_optimized_dataloader,
    )
    from hasten.errors import HastenError as HastenError
    from hasten.monitor.regions import profiled as profiled
    from hasten.optimizer import ModelOptimizer as ModelOptimizer
    from hasten.optimizer import PerformanceOptimizer as PerformanceOptimizer
    from hasten.optimizer import TrainingOptimizer as TrainingOptimizer
    from hasten.records.plan import Plan as Plan
    from hasten.records.plan import Rung as Rung
    from hasten.runtime.evaluate import evaluate as evaluate
    from hasten.runtime.run import Run as Run
    from hasten.task.pipeline import Pipeline as Pipeline
    from hasten.task.task import Metric as Metric
    from hasten.task.task import Task as Task
    from hasten.techniques.registry import register_technique as register_technique
    from hasten.techniques.technique import CannotApply as CannotApply
    from hasten.techniques.technique import Effect as Effect
    from hasten.techniques.technique import Part as Part
    from hasten.techniques.technique import Stage as Stage
    from hasten.techniques.technique import Technique as Technique
    from hasten.train.every import Every as Every
    from hasten.train.fit import fit as fit

_HOMES = {
    "CannotApply": "hasten.techniques.technique",
    "DataPipelineOptimizer": "hasten.data.choosing.optimizer",
    "DatasetCache": "hasten.data.cache.dataset_cache",
    "Effect": "hasten.techniques.technique",
    "Every": "hasten.train.every",
    "HastenError": "hasten.errors",
    "MemoryFormat": "hasten.config",
    "Metric": "hasten.task.task",
    "ModelOptimizer": "hasten.optimizer",
    "OptimizationLevel": "hasten.config",
    "Part": "hasten.techniques.technique",
    "PerformanceConfig": "hasten.config",
    "PerformanceOptimizer": "hasten.optimizer",
    "Pipeline": "hasten.task.pipeline",
    "Plan": "hasten.records.plan",
    "Run": "hasten.runtime.run",
    "Rung": "hasten.records.plan",
    "Stage": "hasten.techniques.technique",
    "Task": "hasten.task.task",
    "Technique": "hasten.techniques.technique",
    "TrainingOptimizer": "hasten.optimizer",
    "create_optimized_dataloader": "hasten.data.choosing.optimizer",
    "evaluate": "hasten.runtime.evaluate",
    "fit": "hasten.train.fit",
    "profiled": "hasten.monitor.regions",
    "register_technique": "hasten.techniques.registry",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'hasten' has no attribute {name!r}")
    globals()[name] = found = getattr(importlib.import_module(_HOMES[name]), name)
    return found  # and from now on without this function


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
