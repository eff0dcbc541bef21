"""Measured costs find the lines of code that a scan points at."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from hasten.errors import HastenError
from hasten.records.finding import Place
from hasten.records.profile import Allocation, PeakMemory, ProfileParts, SyncSite
from hasten.tune.code import code_costs
from specimens import PROFILE

SOURCE = """\
import torch
from torch import nn

def loss_of(output, target):
    loss = nn.functional.mse_loss(output, target)
    if loss.item() > float(loss):
        print("large")
    return loss

class Net(nn.Module):
    def forward(self, x):
        kept = x.tolist()
        return x
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "task.py"
    path.write_text(SOURCE)
    return path


def parts_of(path: str, *lines: tuple[int, float | None]) -> ProfileParts:
    syncs = tuple(
        SyncSite(place=Place(path=path, line=line), kind="item", code="", per_step=1, cost_s=cost)
        for line, cost in lines
    )
    return ProfileParts(measurement=PROFILE.measurement, syncs=syncs)


def found(parts: ProfileParts, *own: Place | None) -> list[tuple[int, str, float | None]]:
    return [
        (each.finding.line, each.finding.code[:4], each.cost_s)
        for each in code_costs(parts, *own, lines_run=all_run)
    ]


def all_run(files: Sequence[Path]) -> dict[Path, frozenset[int]]:
    return dict.fromkeys(files, frozenset(range(1, 1000)))


def test_a_finding_has_the_cost_of_its_line_and_the_costly_come_first(source: Path) -> None:
    rows = found(parts_of(str(source), (12, 1e-3), (6, 2e-3)))
    assert rows[0] == (6, "HST2", 2e-3)
    assert (12, "HST2", 1e-3) in rows


def test_a_line_costs_what_it_costs_once(source: Path) -> None:
    rows = found(parts_of(str(source), (6, 2e-3)))
    assert [cost for line, _, cost in rows if line == 6 and cost is not None] == [2e-3]


@pytest.mark.parametrize("measured", [(), ((12, None),)])
def test_what_was_not_timed_has_no_cost(
    source: Path, measured: tuple[tuple[int, float | None], ...]
) -> None:
    rows = found(parts_of(str(source), *measured), Place(path=str(source), line=10))
    assert {cost for _, _, cost in rows} == {None}
    assert (12, "HST2", None) in rows


def test_paths_are_known_in_any_form(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(source.parent)
    assert found(parts_of("task.py", (6, 2e-3)))[0] == (6, "HST2", 2e-3)


def test_a_task_without_files_has_no_code(tmp_path: Path) -> None:
    nowhere = Place(path=str(tmp_path / "gone.py"), line=1)
    assert code_costs(parts_of("<stdin>", (1, 1.0)), None, nowhere, lines_run=all_run) == ()


def test_code_that_the_task_does_not_run_is_not_told_of(source: Path) -> None:
    parts, place = parts_of(str(source)), Place(path=str(source), line=10)
    everything = {each.finding.line for each in code_costs(parts, place, lines_run=all_run)}
    assert {6, 12} <= everything
    only = code_costs(parts, place, lines_run=lambda files: {files[0]: frozenset({10, 12})})
    assert {each.finding.line for each in only} == {12}


def test_where_what_runs_cannot_be_watched_all_is_told(source: Path) -> None:
    def fail(files: Sequence[Path]) -> dict[Path, frozenset[int]]:
        raise HastenError("The training raised.", fix="")

    parts, place = parts_of(str(source)), Place(path=str(source), line=10)
    everything = code_costs(parts, place, lines_run=all_run)
    assert code_costs(parts, place, lines_run=fail) == everything != ()


def test_settings_of_a_project_are_for_a_scan_by_itself(source: Path) -> None:
    (source.parent / "pyproject.toml").write_text("[tool.hasten.scan]\nnope = 1\n")
    assert found(parts_of(str(source), (6, 2e-3)))[0] == (6, "HST2", 2e-3)


def test_memory_is_that_of_findings_about_memory_only(source: Path) -> None:
    largest = Allocation(place=Place(path=str(source), line=6), code="", held_bytes=1000)
    memory = PeakMemory(
        peak_bytes=1000,
        parameters_bytes=0,
        gradients_bytes=0,
        optimizer_bytes=0,
        activations_bytes=0,
        other_bytes=1000,
        largest=(largest,),
    )
    costs = code_costs(replace(parts_of(str(source), (6, 2e-3)), memory=memory), lines_run=all_run)
    assert costs
    assert {each.held_bytes for each in costs if each.finding.code < "HST3"} == {None}
