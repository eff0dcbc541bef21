"""``hasten profile --data`` by the real command in a real process."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema

from hasten.records.loading import DataReport
from hasten.records.record import from_json
from tasks.from_files import write_rows

ROOT = Path(__file__).parents[2]
TASKS = ROOT / "tests/tasks"


def hasten(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hasten", "profile", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_a_loader_of_files_is_measured_in_every_way_and_the_disk_too(tmp_path: Path) -> None:
    write_rows(tmp_path)
    ended = hasten(f"{TASKS / 'from_files.py'}:packed", "--data", "--json", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    schema = json.loads((ROOT / "docs/schema/profile-data.json").read_text())
    jsonschema.validate(json.loads(ended.stdout), schema)
    report = from_json(ended.stdout.encode(), DataReport, where="stdout")
    assert {each.mode for each in report.rates} == {"own", "workers", "threads", "batched"}
    assert {each.mode for each in report.refused} == {"resident", "prefetched"}
    assert report.rows_per_s == report.rates[0].rows_per_s
    assert report.share is not None
    assert 0 < report.share.share < 1
    assert report.disk is not None
    assert (report.disk.files, report.disk.verdict == "no_files") == (1, False)
    assert report.disk.asked_bytes is not None
    assert report.disk.asked_bytes >= 64 * 512  # a file is read in blocks of its own
    assert report.next[0].startswith("hasten.DataPipelineOptimizer().optimize_dataloader(loader)")
    assert "batched was" in report.next[0]
    assert not any("batched_loader" in each for each in report.next)  # which is for tensors only
    assert [path.name for path in tmp_path.iterdir()] == ["rows.bin"]


def test_a_trace_of_a_loader_is_refused(tmp_path: Path) -> None:
    ended = hasten("gallery:bloom", "--data", "--trace", "t.json", folder=tmp_path)
    assert ended.returncode == 2
    assert "--data and --trace are two measurements" in ended.stderr
