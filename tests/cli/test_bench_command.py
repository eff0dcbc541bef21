"""``hasten bench`` by the real command: what it refuses, and each of its forms to its end."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import msgspec
import pytest

from hasten.host.environment import read_environment
from hasten.records.record import to_json
from specimens import SAVED

replace = msgspec.structs.replace
ROOT = Path(__file__).parents[2]
PLANTED = ROOT / "tests/tasks/planted.py"
# In a process of its own the durations are set to next to nothing: what is shown here is that each
# form runs, writes and judges, not how sure it is.
QUICK = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests")!r})
import quick
quick.shorten()
from hasten.cli.main import main
main()
"""


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def _bench(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return _run([sys.executable, "-m", "hasten", "bench", *arguments], folder)


def _quick(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return _run([sys.executable, "-c", QUICK, "bench", *arguments], folder)


def _document(ended: subprocess.CompletedProcess[str], schema: str) -> dict[str, object]:
    document: dict[str, object] = json.loads(ended.stdout)
    described = json.loads((ROOT / f"docs/schema/{schema}.json").read_text())
    jsonschema.validate(document, described)
    return document


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["naive"], "Name the two arms A and B"),
        ([], "Name the two arms A and B"),
        (["naive", "--inference"], "Name the two arms A and B"),
        (["--save", "x.json", "--against", "y.json"], "Give one of --save, --against"),
        (["naive", "basic", "--inference", "--save", "x.json"], "Give one of --save, --against"),
        (["--against", "nowhere.json"], "nowhere.json cannot be read"),
        (["--save", "no/folder/x.json"], "There is no folder 'no/folder'"),
        (["--save", "."], "is a directory"),
        (["--save", "mine.txt"], "is no saved bench; it is left alone"),
        (["--against", "mine.txt"], "mine.txt is not JSON"),
        (["naive", "nowhere.py:make_task"], "There is no file 'nowhere.py'"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_any_work(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    ended = _bench(f"{PLANTED}:small", *arguments, folder=tmp_path)
    assert ended.returncode == 2, ended.stderr
    assert words in ended.stderr
    assert ended.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_file_of_another_machine_is_refused(tmp_path: Path) -> None:
    here = read_environment()
    saved = replace(SAVED, task=f"{PLANTED}:small", environment=replace(here, cpu="Cray-1"))
    (tmp_path / "bench.json").write_bytes(to_json(saved))
    ended = _bench(saved.task, "--against", "bench.json", folder=tmp_path)
    assert ended.returncode == 2
    assert "saved on another machine (cpu: Cray-1, here " in ended.stderr


@pytest.mark.slow
def test_what_is_saved_is_held_against(tmp_path: Path) -> None:
    task = f"{PLANTED}:small"
    ended = _quick(task, "--save", "bench.json", "--json", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert _document(ended, "bench-saved") == json.loads((tmp_path / "bench.json").read_text())
    before = (tmp_path / "bench.json").read_bytes()
    ended = _quick(task, "--against", "bench.json", "--json", folder=tmp_path)
    report = _document(ended, "bench-against")
    assert ended.returncode == int(bool(report["regression"])), ended.stderr
    assert (tmp_path / "bench.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["bench.json"]


@pytest.mark.slow
def test_two_checkouts_are_compared_by_their_tasks(tmp_path: Path) -> None:
    """Files of one name, each with a module of one name beside it."""
    for folder, rows in (("old", 64), ("new", 96)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "sizes.py").write_text(f"ROWS = {rows}\n")
        (tmp_path / folder / "train.py").write_text(
            "import torch, hasten, sizes\n\n\n"
            "def make_task():\n"
            "    rows = torch.randn(192, 8), torch.randn(192, 1)\n"
            "    return hasten.Task(model=torch.nn.Linear(8, 1), data=rows,\n"
            "        loss=torch.nn.functional.mse_loss, batch_size=sizes.ROWS,\n"
            "        optimizer=lambda p: torch.optim.SGD(p, lr=0.1))\n"
        )
    ended = _quick(
        "old/train.py:make_task", "naive", "new/train.py:make_task", "--json", folder=tmp_path
    )
    report = _document(ended, "bench")
    assert ended.returncode == int(bool(report["regression"])), ended.stderr
    assert (report["a"], report["b"], report["batch_size"]) == (
        "naive",
        "new/train.py:make_task",
        64,
    )
    assert report["speed"] is not None


@pytest.mark.slow
def test_inference_is_timed_for_one_row_and_for_a_batch(tmp_path: Path) -> None:
    other = f"{PLANTED}:with_dropout"
    ended = _quick(f"{PLANTED}:small", "naive", other, "--inference", "--json", folder=tmp_path)
    report = _document(ended, "bench-inference")
    assert ended.returncode == int(bool(report["regression"])), ended.stderr
    sizes = report["sizes"]
    assert isinstance(sizes, list)
    assert [size["rows"] for size in sizes] == [1, 32]
    for size in sizes:
        for latency in (size["a"], size["b"]):
            assert 0 < latency["median_s"] <= latency["p95_s"] <= latency["p99_s"]


def test_arms_that_are_the_same_in_evaluation_are_refused(tmp_path: Path) -> None:
    ended = _bench(f"{PLANTED}:small", "naive", "batched_loader", "--inference", folder=tmp_path)
    assert ended.returncode == 2
    assert "naive and batched_loader are the same in evaluation" in ended.stderr
