"""A trace on disk: whole, readable, with the parts of a few steps in it."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from hasten.errors import HastenError
from hasten.measure import export
from hasten.measure.digests import digest_state
from hasten.measure.export import STEPS, export_trace
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.seed import seed_everything
from hasten.task.task import Task

RANGES = ("data", "transfer", "forward", "backward", "optimizer")


def make_run() -> Run:
    seed_everything(3)
    task = Task(
        model=nn.Sequential(nn.Linear(8, 4), nn.Dropout(0.1), nn.Linear(4, 1)),
        data=(torch.randn(64, 8), torch.randn(64, 1)),
        loss=nn.functional.mse_loss,
        optimizer=torch.optim.AdamW,
        batch_size=16,
    )
    return Run(Pipeline.from_task(task))


def events_of(content: bytes) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(content)["traceEvents"]
    return [each for each in events if each.get("ph") == "X"]


def named(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [each for each in events if each["name"] == name]


def within(inner: dict[str, Any], outer: dict[str, Any]) -> bool:
    starts = outer["ts"] <= inner["ts"]
    return bool(starts and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 1)


@pytest.mark.parametrize("name", ["steps.json", "worker.pt.trace.json", "steps.json.gz"])
def test_a_trace_has_its_steps_and_in_each_step_its_parts(tmp_path: Path, name: str) -> None:
    run = make_run()
    path = tmp_path / name
    assert export_trace(run, run.endless(), path) == STEPS
    content = path.read_bytes()
    events = events_of(gzip.decompress(content) if name.endswith(".gz") else content)
    steps = [each for each in events if each["name"].startswith("ProfilerStep#")]
    assert len(steps) == STEPS
    for range_name in RANGES:
        for step in steps:
            assert [each for each in named(events, range_name) if within(each, step)], range_name
    products = named(events, "aten::addmm")
    assert len(products) == 2 * STEPS
    assert all(any(within(each, one) for one in named(events, "forward")) for each in products)
    assert list(tmp_path.iterdir()) == [path]


def test_tracing_leaves_the_training_as_it_is_to_the_bit(tmp_path: Path) -> None:
    plain = make_run()
    batches = plain.endless()
    for _ in range(1 + STEPS):
        plain.step(next(batches))
    expected = digest_state(plain.pipeline)
    traced = make_run()
    export_trace(traced, traced.endless(), tmp_path / "t.json")
    assert digest_state(traced.pipeline) == expected
    assert "forward" not in vars(traced.eager)


def test_a_trace_that_is_too_large_has_one_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run()
    source = run.endless()
    export_trace(run, source, tmp_path / "all.json")
    limit = (tmp_path / "all.json").stat().st_size * 2 // 3
    monkeypatch.setattr(export, "MOST_BYTES", limit)
    assert export_trace(run, source, tmp_path / "one.json") == 1
    assert (tmp_path / "one.json").stat().st_size <= limit


def test_one_step_that_is_too_large_is_refused_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.json"
    path.write_text("old")
    monkeypatch.setattr(export, "MOST_BYTES", 1000)
    run = make_run()
    with pytest.raises(HastenError, match="more than a browser opens"):
        export_trace(run, run.endless(), path)
    assert path.read_text() == "old"
