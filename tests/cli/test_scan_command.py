"""``hasten scan`` by the real command."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from terminal import lines_seen, plain_environment, run_on_terminal

SCHEMA = Path(__file__).parents[2] / "docs/schema/scan.json"
COMMAND = [sys.executable, "-m", "hasten", "scan"]
HOT = """\
import torch

def train(model, loader, optimizer):
    total = 0.0
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        total += loss.item()
    return total
"""


def _scan(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**plain_environment(), **more}
    return subprocess.run(
        [*COMMAND, *arguments], cwd=folder, env=environment, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(HOT)
    (tmp_path / "other.py").write_text("import torch\n")
    return tmp_path


def test_findings_are_exit_code_1_and_none_are_0(project: Path) -> None:
    found = _scan(project)
    assert found.returncode == 1, found.stderr
    assert "train.py:8:18  HST201" in found.stdout
    assert found.stderr == ""
    assert _scan(project, "other.py").returncode == 0
    assert _scan(project, "--ignore", "HST2").returncode == 0
    assert _scan(project, "--select", "HST202").returncode == 0


@pytest.mark.parametrize("option", [["--json"], ["--format", "json"], ["--format=json"]])
def test_the_document_fits_its_schema(project: Path, option: list[str]) -> None:
    ended = _scan(project, *option)
    document = json.loads(ended.stdout)
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    assert document["version"] == 1
    assert document["summary"]["files"] == 2
    assert [each["line"] for each in document["findings"] if each["code"] == "HST201"] == [8]


@pytest.mark.parametrize("option", [["--json"], ["--format", "json"], ["--format=json"]])
def test_a_fault_is_a_document_too(project: Path, option: list[str]) -> None:
    ended = _scan(project, "nowhere", *option)
    assert ended.returncode == 2
    assert "nowhere is not there" in json.loads(ended.stdout)["error"]


@pytest.mark.parametrize(
    ("format_", "begin"),
    [("github", "::warning file=train.py,"), ("markdown", "# What costs"), ("sarif", "{")],
)
def test_other_formats_go_to_stdout(project: Path, format_: str, begin: str) -> None:
    ended = _scan(project, "--format", format_)
    assert ended.returncode == 1
    assert ended.stdout.startswith(begin)


def test_an_unknown_code_is_a_fault_that_names_the_nearest(project: Path) -> None:
    ended = _scan(project, "--select", "item-in-hot-lop")
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        "error: --select: rule 'item-in-hot-lop' is not known.",
        "       Did you mean 'item-in-hot-loop'?",
    ]


def test_a_code_that_is_near_none_is_told_without_all_others(project: Path) -> None:
    ended = _scan(project, "--select", "foo")
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        "error: --select: rule 'foo' is not known.",
        "       `hasten explain` lists all rules.",
    ]


@pytest.mark.parametrize("code", ["hst201", "Hst2", "ITEM-in-hot-loop"])
def test_codes_may_be_in_small_letters_or_large(project: Path, code: str) -> None:
    assert "HST201" in _scan(project, "--select", code).stdout
    assert "HST201" not in _scan(project, "--ignore", code).stdout
    (project / "pyproject.toml").write_text(f'[tool.hasten.scan]\nselect = ["{code}"]\n')
    assert "HST201" in _scan(project).stdout


@pytest.mark.parametrize(
    ("table", "problem", "fix"),
    [
        ("[tool.hasten.scan]\nselct = []", "key 'tool.hasten.scan.selct'", "hasten.scan.select"),
        ("[tool.hasten.scna]", "key 'tool.hasten.scna'", "tool.hasten.scan"),
        ("[tool.hasten.scan]\nignore = 'HST2'", 'tool.hasten.scan.ignore = "HST2"', ""),
        (
            "[tool.hasten.scan]\nignore = ['HST999']",
            "tool.hasten.scan.ignore: rule 'HST999' is not known.",
            "Did you mean 'HST",
        ),
        (
            "[tool.hasten.scan.per-file-ignores]\n'a/*' = 1",
            "tool.hasten.scan.per-file-ignores.'a/*' = 1",
            "",
        ),
        ("[tool.hasten", "is not TOML", ""),
    ],
)
def test_wrong_settings_are_told_with_their_path(
    project: Path, table: str, problem: str, fix: str
) -> None:
    (project / "pyproject.toml").write_text(table)
    ended = _scan(project)
    assert ended.returncode == 2
    assert str(project / "pyproject.toml") in ended.stderr
    assert problem in ended.stderr
    assert fix in ended.stderr


def test_the_settings_of_the_project_hold_and_the_command_line_comes_first(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.hasten.scan]\nselect = ["HST202"]\n')
    assert _scan(project).returncode == 0
    assert _scan(project, "--select", "HST201").returncode == 1
    (project / "sub").mkdir()
    assert _scan(project / "sub", "..").returncode == 0


def test_what_is_kept_lies_among_what_users_keep_and_is_never_needed(project: Path) -> None:
    home = project / "kept"
    first = _scan(project, XDG_CACHE_HOME=str(home))
    assert list((home / "hasten/scan").iterdir())
    assert _scan(project, XDG_CACHE_HOME=str(home)).stdout == first.stdout
    closed = project / "file"
    closed.touch()
    assert _scan(project, XDG_CACHE_HOME=str(closed)).stdout == first.stdout


def _large(folder: Path) -> Path:
    for number in range(300):
        (folder / f"m{number}.py").write_text(HOT * 30 + f"# {number}\n")
    return folder


def test_progress_is_shown_on_a_terminal_where_there_is_much(tmp_path: Path) -> None:
    code, written = run_on_terminal([*COMMAND, "."], 80, folder=_large(tmp_path))
    assert code == 1
    assert any("of 300 files" in line for line in lines_seen(written))


def test_ctrl_c_ends_it_and_its_processes(tmp_path: Path) -> None:
    """The processes are ours: the police of the tests finds those that are left."""
    code, written = run_on_terminal(
        [*COMMAND, "."], 80, folder=_large(tmp_path), interrupt_at="of 300 files"
    )
    assert code == 130
    assert "Traceback" not in written
    assert lines_seen(written)[-1] == "interrupted"


def test_a_notebook_is_told_not_to_be_read(project: Path) -> None:
    (project / "n.ipynb").write_text('{"cells": [{"source": ["import torch"]}]}')
    told = _scan(project, "n.ipynb").stdout
    assert "note: not read: n.ipynb: it is a notebook" in told
    assert "Nothing found in 0 files." in told


def test_files_that_are_all_skipped_are_not_told_to_be_fine(project: Path) -> None:
    (project / "words.txt").write_text("root:x:0:0\n")
    said = "Nothing looked at: 1 file skipped, with no word of torch, numpy, pandas or training.\n"
    assert _scan(project, "words.txt").stdout == said


def test_a_folder_that_was_deleted_meanwhile_is_a_fault(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    in_it = 'cd "$0" && rmdir "$0" && exec "$@"'
    ended = subprocess.run(
        ["/bin/sh", "-c", in_it, str(gone), *COMMAND, str(tmp_path)],
        env=plain_environment(), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: The folder that you are in cannot be looked up: No such")


STEP = """
def step_{name}(model, optimizer, x, y):
    loss = model(x, y)
    loss.backward()
    optimizer.step()
    note(loss)
"""


def test_the_same_is_told_whatever_the_hash_of_a_text_is(tmp_path: Path) -> None:
    """Of many that call it, the first is what makes a function hot."""
    steps = "".join(STEP.format(name=name) for name in "abcdef")
    note = "import torch\n\ndef note(loss):\n    print(loss.item())\n"
    (tmp_path / "train.py").write_text(note + steps)
    for seed in "123":
        kept = str(tmp_path / f"kept{seed}")
        told = _scan(tmp_path, PYTHONHASHSEED=seed, XDG_CACHE_HOME=kept).stdout
        assert told.startswith("train.py:10  every step: note is called there\n")


def test_a_scan_of_the_folder_one_is_in_needs_no_path(project: Path) -> None:
    assert _scan(project).stdout == _scan(project, ".").stdout
