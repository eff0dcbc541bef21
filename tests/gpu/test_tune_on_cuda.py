"""A whole tuning on a CUDA device, of a training that another precision ruins."""

from pathlib import Path

import pytest
import torch

from hasten.flow import tune
from quick import shorten

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
DIVERGING = Path(__file__).parents[1] / "tasks" / "diverging.py"


def test_a_precision_that_ruins_the_training_is_dropped_and_the_rest_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bf16 is kept by its speed, and refuted in the end, by training both ways."""
    shorten(monkeypatch.setattr, looks_s=(1.0, 2.0, 4.0))
    monkeypatch.setattr("hasten.stats.paired.ALIKE_S", 0.1)
    evidence = tune(f"{DIVERGING}:cancels", out=tmp_path / "out", minutes=0.75)
    rows = [each for each in evidence.trials if each.candidate.technique == "mixed_precision"]
    assert [each.outcome for each in rows][-1:] == ["kept"], rows
    assert "mixed_precision" not in evidence.plan.parts
    assert "diverges" in evidence.dropped["mixed_precision"], evidence.dropped
    assert evidence.outcome == "recipe", evidence.why
    assert {"resident_data", "batched_loader"} & evidence.plan.parts.keys(), evidence.plan
    assert evidence.numerics is not None
    assert evidence.numerics.verdict == "proven"
