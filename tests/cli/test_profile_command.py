"""``hasten profile`` by the real command in a real process."""

import gzip
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import psutil
import pytest

from endings import still_alive
from hasten.records.profile import ProfileReport
from hasten.records.record import from_json
from terminal import lines_seen, run_on_terminal

ROOT = Path(__file__).parents[2]
PLANTED = ROOT / "tests/tasks/planted.py"


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "hasten", "profile", *arguments]


def _hasten(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(_command(*arguments), cwd=folder, capture_output=True, text=True)


def test_a_profile_is_one_document_and_a_trace(tmp_path: Path) -> None:
    ended = _hasten(f"{PLANTED}:small", "--json", "--trace", "t.json.gz", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    schema = json.loads((ROOT / "docs/schema/profile.json").read_text())
    jsonschema.validate(json.loads(ended.stdout), schema)
    report = from_json(ended.stdout.encode(), ProfileReport, where="stdout")
    assert report.trace == "t.json.gz"
    assert report.memory is not None
    weights = report.traits.model.parameter_bytes
    assert report.memory.parameters_bytes == weights
    assert report.measurement.steps
    trace = json.loads(gzip.decompress((tmp_path / "t.json.gz").read_bytes()))
    assert {"data", "forward", "backward"} <= {each["name"] for each in trace["traceEvents"]}
    assert "measuring where the time of a step goes" in ended.stderr


def test_the_card_fits_a_terminal_of_80_columns(tmp_path: Path) -> None:
    code, written = run_on_terminal(_command(f"{PLANTED}:small"), 80, folder=tmp_path)
    lines = lines_seen(written)
    assert code == 0, lines
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("Where the time of a step goes") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gallery:blom"], "gallery workload 'blom' is not known"),
        ([f"{PLANTED.with_name('broken.py')}:model_raises"], "does not run one step"),
        (["gallery:bloom", "--trace", "nowhere/t.json"], "There is no folder 'nowhere'"),
        (["gallery:bloom", "--recipe", "none.toml"], "none.toml"),
    ],
)
def test_bad_input_is_a_fault_and_nothing_is_written(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    ended = _hasten(*arguments, folder=tmp_path)
    assert ended.returncode == 2, ended.stderr
    assert message in ended.stderr
    assert ended.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_profile_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    process = subprocess.Popen(
        _command(f"{PLANTED}:small", "--trace", "t.json"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    family = _wait_for_worker(process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    assert "interrupted" in errors
    assert not still_alive(family)
    assert list(tmp_path.iterdir()) == []


def _wait_for_worker(process: subprocess.Popen[str]) -> list[psutil.Process]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        family = psutil.Process(process.pid).children(recursive=True)
        if family:
            return family
        time.sleep(0.05)
    raise AssertionError("no worker came up")
