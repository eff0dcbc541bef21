"""``events.jsonl``: whole lines, bounded, and what a kill or a full disk does to it."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hasten.records.checkpoint import Position
from hasten.records.record import from_builtins
from hasten.records.training import StepEvent
from hasten.train import log
from hasten.train.log import EVENTS, EventLog
from hasten.train.sinks import Sinks
from specimens import CHECKPOINT_EVENT, EVALUATION_EVENT, NOTE_EVENT, STEP_EVENT, SUMMARY

START = Position(step=0, epoch=0, batches=0)
replace = msgspec.structs.replace


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out" / EVENTS


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path: Path, *steps: int, start: int = 0) -> None:
    events = EventLog(path)
    events.started(Position(step=start, epoch=0, batches=start), None)
    for step in steps:
        events.stepped(step)
        events.event(replace(STEP_EVENT, step=step))
    events.ended(SUMMARY)


def test_each_event_is_a_line_under_its_kind(path: Path) -> None:
    events = EventLog(path)
    events.started(START, 100)
    for event in (STEP_EVENT, EVALUATION_EVENT, CHECKPOINT_EVENT, NOTE_EVENT):
        events.event(event)
    assert [list(each) for each in read(path)] == [
        ["step"],
        ["evaluation"],
        ["checkpoint"],
        ["note"],
    ]
    assert from_builtins(read(path)[0]["step"], StepEvent, where="") == STEP_EVENT
    events.ended(SUMMARY)


def test_a_loss_that_is_no_number_is_null(path: Path) -> None:
    events = EventLog(path)
    events.started(START, None)
    events.event(replace(STEP_EVENT, loss=float("nan")))
    events.ended(SUMMARY)
    assert read(path)[0]["step"]["loss"] is None


def test_the_file_is_opened_again_and_goes_on(path: Path) -> None:
    write(path, 1, 2)
    write(path, 3, start=2)
    assert [each["step"]["step"] for each in read(path)] == [1, 2, 3]


@pytest.mark.parametrize("torn", [b"{", b'{"step":{"step":3', b"\xff" * 200_000])
def test_a_torn_last_line_is_cut_off(path: Path, torn: bytes) -> None:
    write(path, 1, 2)
    with path.open("ab") as file:
        file.write(torn)
    write(path, 3, start=2)
    assert [each["step"]["step"] for each in read(path)] == [1, 2, 3]


def test_a_file_that_is_one_torn_line_begins_anew(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'{"step":')
    write(path, 1)
    assert [each["step"]["step"] for each in read(path)] == [1]


def test_steps_that_were_lost_stay_and_a_note_says_so(path: Path) -> None:
    write(path, 50, 100, 150)
    write(path, 150, start=120)
    assert [list(each) for each in read(path)] == [["step"]] * 3 + [["note"], ["step"]]
    note = read(path)[3]["note"]
    assert note["step"] == 120
    assert note["words"].startswith(
        "training goes on from step 120: later steps above are of a run"
    )


def test_another_run_in_the_same_folder_is_told_apart(path: Path) -> None:
    write(path, 50)
    write(path, 50)
    assert "another run" in read(path)[1]["note"]["words"]


def test_lines_that_are_not_ours_are_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("prose\n[1]\n{}\n")
    write(path, 1)
    assert path.read_text().startswith("prose\n[1]\n{}\n{")


def test_two_files_of_the_largest_size_are_all_there_ever_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "LARGEST_BYTES", 4000)
    write(path, *range(1, 101))
    aside = path.with_name("events.1.jsonl")
    assert {each.name for each in path.parent.iterdir()} == {path.name, aside.name}
    assert max(path.stat().st_size, aside.stat().st_size) <= 4000
    steps = [each["step"]["step"] for each in read(aside) + read(path)]
    assert steps == list(range(steps[0], 101)), "the newest, without a gap"


def test_the_bound_holds_over_several_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "LARGEST_BYTES", 1000)
    for step in range(50):
        write(path, step + 1, start=step)
    assert sum(each.stat().st_size for each in path.parent.iterdir()) <= 2000


def test_the_stated_bound_is_32_mib() -> None:
    assert 2 * log.LARGEST_BYTES == 32 << 20


def test_a_folder_in_its_place_drops_the_log_and_not_the_training(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.mkdir(parents=True)
    sinks = Sinks([EventLog(path)])
    sinks.started(START, None)
    sinks.event(STEP_EVENT)
    sinks.ended(SUMMARY)
    assert capsys.readouterr().err.count("Is a directory") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_a_full_disk_drops_the_log_and_not_the_training(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.parent.mkdir()
    events = EventLog(path)
    sinks = Sinks([events])
    sinks.started(START, None)
    sinks.event(STEP_EVENT)
    assert events._file is not None
    events._file.close()
    events._file = open("/dev/full", "wb", buffering=0)  # type: ignore[assignment]  # noqa: SIM115
    for _ in range(3):
        sinks.event(STEP_EVENT)
    sinks.ended(SUMMARY)
    assert capsys.readouterr().err.count("No space left on device") == 1
    assert len(read(path)) == 1
    events.ended(SUMMARY)
