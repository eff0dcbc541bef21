"""``hasten scan --fix`` and ``--diff`` by the real command."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from terminal import plain_environment

SCHEMA = Path(__file__).parents[2] / "docs/schema/scan-fix.json"
SLOW = """\
import torch

def evaluate(model, loader):
    right = 0
    for x, y in loader:
        right += (model(x.cuda(non_blocking=True)) == y).sum().item()
    return right

def cool_down(loader):
    for x in loader:
        torch.cuda.empty_cache()
        x.sum()
"""
FAST = SLOW.replace(".sum().item()\n", ".sum()\n    right = int(right)\n")
FASTEST = FAST.replace("        torch.cuda.empty_cache()\n", "").removeprefix("import torch\n\n")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(SLOW)
    return file


def _scan(file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hasten", "scan", "--select", "HST201,HST301", *arguments],
        cwd=file.parent, env=plain_environment(), capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip


def test_safe_fixes_are_made_and_others_are_named(file: Path) -> None:
    ended = _scan(file, "--fix")
    assert ended.returncode == 1, ended.stderr
    assert file.read_text() == FAST
    assert "train.py:6 HST201 `right` is added up on the device" in ended.stdout
    assert "1 fix made in 1 file." in ended.stdout
    assert "1 more has a fix to look at first" in ended.stdout


def test_unsafe_fixes_are_made_when_they_are_asked_for(file: Path) -> None:
    ended = _scan(file, "--fix", "--unsafe")
    assert ended.returncode == 0, ended.stderr
    assert file.read_text() == FASTEST
    assert "Nothing was fixed." in _scan(file, "--fix", "--unsafe").stdout


def test_a_difference_goes_to_stdout_and_nothing_is_written(file: Path) -> None:
    ended = _scan(file, "--diff", "--fix")
    assert ended.returncode == 1, ended.stderr
    assert file.read_text() == SLOW
    assert ended.stdout.startswith("--- a/train.py\n+++ b/train.py\n@@ ")
    assert "+    right = int(right)\n" in ended.stdout


def test_fixes_that_a_difference_leaves_out_are_told_beside_it(file: Path) -> None:
    file.write_text(FAST)
    ended = _scan(file, "--diff")
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.splitlines() == [
        "1 more has a fix to look at first: see --diff --unsafe, then --fix --unsafe.",
        "1 finding left.",
    ]
    assert _scan(file, "--diff", "--unsafe").stderr == ""


def test_what_was_fixed_is_told_as_json(file: Path) -> None:
    file.chmod(0o444)
    told = json.loads(_scan(file, "--fix", "--json").stdout)
    jsonschema.validate(told, json.loads(SCHEMA.read_text()))
    assert told["refused"] == {"train.py": "it is read-only"}
    assert told["fixed"] == []
    assert "train.py is left as it is: it is read-only." in _scan(file, "--fix").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--unsafe"], "--unsafe alone does nothing."),
        (["--fix", "--format", "sarif"], "Fixes are not told as sarif."),
    ],
)
def test_what_makes_no_sense_is_a_fault(file: Path, arguments: list[str], said: str) -> None:
    ended = _scan(file, *arguments)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert file.read_text() == SLOW
