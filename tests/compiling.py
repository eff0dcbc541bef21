"""Models that are compiled, for tests of that."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from hasten.records.plan import Plan
from hasten.task.pipeline import Pipeline
from hasten.techniques.compile import CompilePart, CompileTechnique
from plain_loop import make_loader

PLAN = Plan(parts={"compile": {}})
TECHNIQUE = CompileTechnique()


def make_pipeline(model: nn.Module) -> Pipeline:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Pipeline.from_loop(model, make_loader(), optimizer, F.cross_entropy)


def apply_to(model: nn.Module) -> Any:
    return TECHNIQUE.apply(make_pipeline(model), CompilePart())


def quick(**part: Any) -> Plan:
    """No code is generated."""
    return Plan(parts={"compile": {"backend": "aot_eager", **part}})
