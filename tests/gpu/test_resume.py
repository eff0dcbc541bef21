"""A training on the device in two parts is the training in one, to the bit."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

from hasten.records.plan import Plan
from hasten.task.task import Task
from hasten.train.fit import fit

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
STEPS, STOP = 40, 23
"""An epoch has 16 batches."""


def make_task() -> Task:
    torch.manual_seed(3)
    model = nn.Sequential(
        nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 8)
    )
    generator = torch.Generator().manual_seed(1)
    data = torch.randn(256, 32, generator=generator), torch.arange(256) % 8
    return Task(
        model=model,
        data=data,
        loss=F.cross_entropy,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS),
        batch_size=16,
        clip_norm=1.0,
        evaluation_data=data,
    )


PLANS: dict[str, dict[str, Any]] = {
    "naive": {},
    "fp16": {"mixed_precision": {"dtype": "fp16"}},
    "fused": {"fused_optimizer": {}},
    "graph": {"fused_optimizer": {}, "whole_step_graph": {}},
    "graph of resident rows": {
        "resident_data": {},
        "mixed_precision": {"dtype": "bf16"},
        "fused_optimizer": {},
        "whole_step_graph": {},
    },
    "overlapped": {"overlapped_transfer": {}, "late_readings": {}},
}


def bits(folder: Path) -> dict[str, torch.Tensor]:
    path = folder / f"step-{STEPS:08d}"
    return {
        **load_file(path / "model.safetensors"),
        **load_file(path / "state.safetensors"),
    }


@pytest.mark.parametrize("name", PLANS)
def test_two_parts_equal_the_whole(name: str, tmp_path: Path) -> None:
    plan, whole, parts = Plan(parts=PLANS[name]), tmp_path / "whole", tmp_path / "parts"
    done = fit(make_task(), plan, steps=STEPS, checkpoint_dir=whole, deterministic=True)
    assert {each.outcome for each in done.applied} <= {"done"}
    fit(make_task(), plan, steps=STOP, checkpoint_dir=parts, deterministic=True)
    fit(make_task(), plan, steps=STEPS, checkpoint_dir=parts, resume=True, deterministic=True)
    one, other = bits(whole), bits(parts)
    assert one.keys() == other.keys()
    assert [key for key in one if not torch.equal(one[key], other[key])] == []
