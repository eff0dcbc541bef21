"""Levels and wishes as users write them, on a real training: they run and say what they did."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

from hasten import MemoryFormat, OptimizationLevel, PerformanceConfig, PerformanceOptimizer

ULTRA = PerformanceConfig(
    optimization_level=OptimizationLevel.ULTRA,
    enable_amp=True,
    enable_compile=True,
    enable_flash_attention=True,
    num_workers=8,
    gradient_accumulation_steps=8,
)
ADVANCED = PerformanceConfig(
    optimization_level=OptimizationLevel.ADVANCED,
    enable_gradient_checkpointing=True,
    memory_format=MemoryFormat.AUTO,
)
BASIC = PerformanceConfig(optimization_level=OptimizationLevel.BASIC)


class Decoded(Dataset[Any]):
    """Samples that are made when they are asked for, as images are decoded."""

    def __len__(self) -> int:
        return 128

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(index)
        return torch.randint(0, 20, (16,), generator=generator), torch.tensor(index % 4)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.work = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, inputs: Tensor) -> Tensor:
        attended, _ = self.attention(inputs, inputs, inputs, need_weights=False)
        output: Tensor = attended + self.work(inputs)
        return output


def transformer() -> nn.Module:
    return nn.Sequential(nn.Embedding(20, 16), Block(), Block(), nn.Flatten(), nn.Linear(256, 4))


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 4)
    )


def data_for(model: str) -> DataLoader[Any]:
    if model == "transformer":
        return DataLoader(Decoded(), batch_size=32, shuffle=True)
    rows = TensorDataset(torch.randn(128, 16), torch.arange(128) % 4)
    return DataLoader(rows, batch_size=32, shuffle=True)


@pytest.fixture(autouse=True)
def _quick_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On the CPU without generating code, which would take minutes at the level ULTRA."""
    if not torch.cuda.is_available():
        slow = torch.compile
        monkeypatch.setattr(torch, "compile", lambda what, **_: slow(what, backend="aot_eager"))
    yield
    torch._dynamo.reset()


def train(config: PerformanceConfig, name: str) -> tuple[list[float], dict[str, str], Any]:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = (transformer if name == "transformer" else convolutions)().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run = PerformanceOptimizer(config).optimize_training_pipeline(
        model, data_for(name), optimizer, F.cross_entropy, clip_norm=1.0
    )
    losses = [float(run.step(batch)) for _ in range(4) for batch in run.dataloader]
    outcomes = {each.technique: f"{each.outcome}: {each.why}" for each in run.applied}
    return losses, outcomes, run


@pytest.mark.parametrize("name", ["transformer", "convolutions"])
@pytest.mark.parametrize("config", [BASIC, ADVANCED, ULTRA], ids=["basic", "advanced", "ultra"])
def test_it_trains_and_every_wish_has_an_outcome(config: PerformanceConfig, name: str) -> None:
    losses, outcomes, run = train(config, name)
    assert all(loss == loss for loss in losses)
    assert sum(losses[-4:]) < sum(losses[:4])
    asked = {technique for technique, wish in config._asked().items() if wish}
    assert asked <= set(outcomes)
    assert set(run.plan.parts) == {
        technique for technique, outcome in outcomes.items() if not outcome.startswith("fell_back")
    }
    run.undo()


@pytest.mark.parametrize("name", ["transformer", "convolutions"])
def test_the_wishes_of_ultra_say_what_they_did_and_what_they_could_not(name: str) -> None:
    _, outcomes, run = train(ULTRA, name)
    precision = outcomes["mixed_precision"].removesuffix(", which this CPU computes slowly")
    assert precision == "done: bf16 autocast"
    assert outcomes["gradient_accumulation"] == "done: each batch in 8 pieces"
    assert outcomes["compile"].startswith("done: whole model, mode max-autotune-no-cudagraphs")
    if name == "transformer":
        fused = "flash" if not torch.cuda.is_available() else ("flash", "cudnn", "efficient")
        assert outcomes["attention"].removeprefix("done: kernels: ").startswith(fused)
    else:
        no_attention = "fell_back: the model calls no scaled_dot_product_attention"
        assert outcomes["attention"] == no_attention
    cores = len(os.sched_getaffinity(0))
    if name == "convolutions":
        assert "leaves it nothing to do" in outcomes["loader_workers"]
    elif cores < 8:
        assert outcomes["loader_workers"].startswith("skipped: num_workers=8 is more than the")
    else:
        assert outcomes["loader_workers"] == "done: 8 workers, 0 before"
    if torch.cuda.is_available():
        assert outcomes["whole_step_graph"] == "done: captured"
    else:
        assert "whole_step_graph" not in outcomes
    run.undo()


def test_basic_leaves_every_bit_as_it_was() -> None:
    naive = PerformanceConfig(enable_performance_optimization=False)
    losses = [train(config, "convolutions")[0] for config in (naive, BASIC)]
    assert losses[0] == losses[1]
