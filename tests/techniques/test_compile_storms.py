"""A training that compiles without end is set back, and no other is taken for one."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from arms import first_difference, measure_yardstick, trace
from compiling import make_pipeline, quick
from hasten.records.plan import Plan
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from plain_loop import make_model

pytestmark = pytest.mark.usefixtures("forget_compiled_code")


class ByTheTable(nn.Module):
    """Its code depends on the length of its input, so that each length is compiled anew."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 3)
        self.table = {length: 1.0 / (1 + length) for length in range(40)}

    def forward(self, inputs: Tensor) -> Tensor:
        share = self.table[int(inputs.shape[1])]
        return self.layer(inputs.sum(1, keepdim=True) * share)


class LongerAndLonger:
    """Batches of 8 rows, each longer than the one before."""

    def __iter__(self) -> Iterator[Any]:
        generator = torch.Generator().manual_seed(0)
        for length in range(2, 26):
            yield (
                torch.randn(8, length, generator=generator),
                torch.randint(3, (8,), generator=generator),
            )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_training_that_compiles_without_end_is_set_back(backend: str) -> None:
    def make() -> Pipeline:
        torch.manual_seed(0)
        pipeline = make_pipeline(ByTheTable())
        pipeline.loader = LongerAndLonger()
        return pipeline

    plain = trace(make(), Plan(), "whole")
    changed = trace(make(), Plan(parts={"compile": {"backend": backend}}), "whole")
    assert changed.run is not None
    assert [str(each) for each in changed.run.applied] == [
        "compile: fell back (it compiled 7 more graphs after the first step)"
    ]
    assert changed.run.model._compiled_call_impl is None
    if backend == "eager":
        assert first_difference(plain, changed) == ""
    assert measure_yardstick(make, Plan(), "whole").share(changed) <= 1.0


def test_lengths_that_move_are_compiled_for_all_lengths() -> None:
    """No storm: torch makes the length dynamic the second time."""
    pipeline = make_pipeline(nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(1, 3)))
    pipeline.loader = [(inputs[:, None], target) for inputs, target in LongerAndLonger()]
    run = Run(pipeline, quick())
    for batch in run.epoch():
        run.step(batch)
    assert [each.outcome for each in run.applied] == ["done"]


def test_an_evaluation_between_the_steps_is_no_storm() -> None:
    run = Run(make_pipeline(make_model()), quick())
    batch = next(iter(run.dataloader))
    for _ in range(12):
        run.step(batch)
        run.model.eval()
        with torch.no_grad():
            run.model(batch[0])
        run.model.train()
    assert [each.outcome for each in run.applied] == ["done"]
