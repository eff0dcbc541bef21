"""A mistyped task is refused before any process loads torch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MARKS = "import pathlib\npathlib.Path(__file__).with_name('loaded').touch()\nraise SystemExit(9)\n"
SLIPS = {
    "gallery:blom": "Did you mean 'bloom'?",
    "gallery:bloom@ful": "Did you mean 'full'?",
    "train.py:make_tsk": "Did you mean 'make_task'?",
    "trian.py:make_task": "Did you mean 'train.py'?",
    "trian:make_task": "Did you mean 'train'?",
}


def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """With a torch that leaves a mark in whichever process loads it."""
    torch = folder / "marked" / "torch"
    torch.mkdir(parents=True, exist_ok=True)
    (torch / "__init__.py").write_text(MARKS)
    path = os.pathsep.join([str(torch.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "hasten", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("task", SLIPS)
@pytest.mark.parametrize(
    "command",
    [["tune"], ["train"], ["profile"], ["bench", "gallery:bloom", "naive"]],
    ids=lambda command: command[0],
)
def test_a_slip_is_told_before_torch_is_loaded(
    command: list[str], task: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("import torch\n\ndef make_task():\n    pass\n")
    ended = run(tmp_path, *command, task)
    assert ended.returncode == 2
    assert SLIPS[task] in ended.stderr
    assert not (tmp_path / "marked" / "torch" / "loaded").exists()


def test_a_process_that_loads_torch_leaves_its_mark(tmp_path: Path) -> None:
    """Else the test above could not fail."""
    assert run(tmp_path, "tune", "gallery:bloom").returncode != 0
    assert (tmp_path / "marked" / "torch" / "loaded").exists()
