"""``hasten scan --fix --prove`` by the real command."""

import io
import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

from hasten.records.scan import AppliedFix, FixProof, FixReport, FixTrial
from hasten.report.scan_fixes import fix_card, trial_line
from specimens import ENVIRONMENT, NUMERICS, SPEED
from terminal import lines_seen, plain_environment, run_on_terminal

SCHEMA = Path(__file__).parents[2] / "docs/schema/scan-fix.json"
COMMAND = [sys.executable, "-m", "hasten", "scan", "--select", "HST201"]
SLOW = """\
import torch

import hasten


def forward(model, batches):
    right = 0
    for x, y in batches:
        right += (model(x) == y).sum().item()
    return right


def make_task():
    return hasten.Task(
        model=torch.nn.Linear(8, 4),
        data=(torch.randn(64, 8), torch.randint(0, 4, (64,))),
        loss=torch.nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-2),
        batch_size=16,
    )
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(SLOW)
    return file


def _scan(file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], cwd=file.parent, env=plain_environment(), capture_output=True,
        text=True, check=False, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said", "fix"),
    [
        (["--prove", "train.py:make_task"], "--prove alone does nothing.", "Give --fix or --diff"),
        (["--fix", "--prove", "trian.py:make_task"], "There is no file 'trian.py'.", "train.py"),
        (["--fix", "--prove", "train.py:mak_task"], "function 'mak_task'", "make_task"),
        (["--fix", "--prove", "train.py"], "does not name a task", "train.py:make_task"),
    ],
)
def test_a_wrong_task_is_told_at_once(
    file: Path, arguments: list[str], said: str, fix: str
) -> None:
    ended = _scan(file, *arguments)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert fix in ended.stderr
    assert file.read_text() == SLOW


def test_where_there_is_nothing_to_fix_no_torch_is_loaded(file: Path) -> None:
    (file.parent / "torch.py").write_text("raise ImportError('nobody needs it')\n")
    file.with_name("clean.py").write_text("import torch\n")
    ended = _scan(file, "clean.py", "--fix", "--prove", "train.py:make_task")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "There is nothing to fix.\n"


def test_what_the_task_does_not_run_is_left_and_told(file: Path) -> None:
    ended = _scan(file, "--fix", "--prove", "train.py:make_task", "--json")
    assert ended.returncode == 1, ended.stderr
    told = json.loads(ended.stdout)
    jsonschema.validate(told, json.loads(SCHEMA.read_text()))
    (trial,) = told["proof"]["trials"]
    assert (trial["outcome"], trial["fixes"][0]["line"]) == ("not_run", 9)
    assert told["fixed"] == []
    assert file.read_text() == SLOW


def test_ctrl_c_leaves_the_tree_as_it_was(file: Path) -> None:
    code, written = run_on_terminal(
        [*COMMAND, "--fix", "--prove", "train.py:make_task"], 100, folder=file.parent,
        interrupt_at="building train.py:make_task",
    )  # fmt: skip
    assert code == 130
    assert lines_seen(written)[-1] == "interrupted"
    assert file.read_text() == SLOW
    assert [each.name for each in file.parent.iterdir() if each.suffix == ".py"] == ["train.py"]


FIX = AppliedFix(code="HST201", path="train.py", line=9, safety="safe", about="Reads once.")


def make_report() -> FixReport:
    refused = FixTrial(fixes=(FIX, FIX), together=True, outcome="not_the_same", why="losses differ")
    kept = FixTrial(
        fixes=(FIX,), together=False, outcome="kept", why="faster", numerics=NUMERICS, speed=SPEED
    )
    proof = FixProof(task="train.py:make_task", trials=(refused, kept), environment=ENVIRONMENT)
    return FixReport(
        fixed=(FIX,), differences={}, refused={}, written=True, unsafe=0, held_back=0, left=(),
        proof=proof,
    )  # fmt: skip


def test_each_trial_is_told_with_its_verdict_and_figures() -> None:
    console = Console(width=110, file=io.StringIO(), record=True)
    console.print(fix_card(make_report()))
    lines = console.export_text().splitlines()
    assert lines[0].split("  ")[0] == "NOT THE SAME, all together"
    assert lines[1] == lines[2] == "  train.py:9 HST201 Reads once."
    assert lines[3] == "KEPT  faster"
    assert f"{SPEED.ratio:.3f}x, 99 % interval" in lines[5]
    assert any(line.startswith("  rounding: proven, ") for line in lines)
    assert lines[-1] == "1 fix made in 1 file."
    assert trial_line(make_report().proof.trials[1]) == "kept: train.py:9 HST201: faster"  # type: ignore[union-attr]
