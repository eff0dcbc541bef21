"""The pytest fixture, in a small project of its own, by a pytest process of its own."""

import importlib.metadata
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLANTED = ROOT / "tests/tasks/planted.py"

STUBS = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests")!r})
import msgspec, pytest
from hasten.errors import HastenError
from hasten.tune import bench, gate
import specimens

replace = msgspec.structs.replace
asked = []


def against(task, names, path, *, seed, tell):
    decision = path.stem
    if decision == "broken":
        raise HastenError("It was saved on another machine.", fix="Save it anew.")
    asked.append((task, tuple(names), seed))
    return replace(specimens.GATE, change=replace(specimens.GATE.change, decision=decision))


def compare(task, a, b, *, seed, tell):
    return replace(specimens.BENCH, outcome=a, b=b)


gate.against, bench.bench = against, compare
"""
TESTS = """
import pytest

@pytest.mark.parametrize("decision", ["slower", "same", "faster", "undecided", "broken"])
def test_gate(hasten_bench, decision):
    hasten_bench("train.py:make_task", "naive").against(f"{decision}.json")

@pytest.mark.parametrize("decision", ["slower", "same", "faster", "undecided"])
def test_not_slower(hasten_bench, decision):
    hasten_bench("train.py:make_task", decision, "basic").is_not_slower()

@pytest.mark.parametrize("decision", ["slower", "same", "faster", "undecided"])
def test_faster(hasten_bench, decision):
    hasten_bench("train.py:make_task", decision, "basic").is_faster()

def test_missing_file(hasten_bench):
    hasten_bench("train.py:make_task").against("nowhere.json")

def test_one_arm(hasten_bench):
    hasten_bench("train.py:make_task", "naive").is_faster()

def test_report(hasten_bench):
    report = hasten_bench("train.py:make_task", "naive", seed=3).against("same.json")
    assert report.change.times > 1
    import conftest
    assert conftest.asked[-1] == ("train.py:make_task", ("naive",), 3)
"""


def _pytest(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "hasten.pytest_plugin", "-rA"]
    environment = dict(os.environ)
    environment.pop("PYTEST_ADDOPTS", None)
    ended = subprocess.run(
        [*command, "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment,
    )
    return ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("project")
    (folder / "conftest.py").write_text(STUBS)
    (folder / "test_speed.py").write_text(TESTS)
    for decision in ("slower", "same", "faster", "undecided", "broken"):
        (folder / f"{decision}.json").touch()
    return _pytest(folder)


@pytest.mark.parametrize(
    ("test", "outcome"),
    [
        ("test_gate[slower]", "FAILED"),
        ("test_gate[same]", "PASSED"),
        ("test_gate[faster]", "PASSED"),
        ("test_gate[broken]", "FAILED"),
        ("test_not_slower[slower]", "FAILED"),
        ("test_not_slower[same]", "PASSED"),
        ("test_not_slower[faster]", "PASSED"),
        ("test_faster[slower]", "FAILED"),
        ("test_faster[same]", "FAILED"),
        ("test_faster[faster]", "PASSED"),
        ("test_missing_file", "FAILED"),
        ("test_one_arm", "FAILED"),
        ("test_report", "PASSED"),
    ],
)
def test_what_is_proven_slow_fails(test: str, outcome: str, outcomes: str) -> None:
    assert f"{outcome} test_speed.py::{test}" in outcomes


def test_what_cannot_be_told_is_skipped_with_the_figures(outcomes: str) -> None:
    skipped = [line for line in outcomes.splitlines() if line.startswith("SKIPPED")]
    assert sum(int(line.split("[")[1].split("]")[0]) for line in skipped) == 3
    assert all("NO VERDICT" in line for line in skipped)


def test_a_failure_says_how_much_and_shows_none_of_our_lines(outcomes: str) -> None:
    assert "SLOWER  naive takes 1.100 times as long as when it was saved" in outcomes
    assert "95 % interval 1.060 to 1.140" in outcomes
    assert "error: It was saved on another machine.\nSave it anew." in outcomes
    assert "Run pytest --hasten-save once, and keep the file." in outcomes
    assert "def _fail" not in outcomes
    assert "Traceback" not in outcomes


@pytest.mark.slow
def test_a_project_saves_once_and_is_held_against_it(tmp_path: Path) -> None:
    """For real, but for the durations: it runs, it writes, and it judges."""
    (tmp_path / "conftest.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT / 'tests')!r})\nimport quick\nquick.shorten()\n"
    )
    (tmp_path / "test_speed.py").write_text(
        f"def test_speed(hasten_bench):\n"
        f"    hasten_bench('{PLANTED}:small').against('bench.json')\n"
    )
    assert "1 failed" in _pytest(tmp_path)
    assert not (tmp_path / "bench.json").exists(), "nothing is saved unless it is asked for"
    saved = _pytest(tmp_path, "--hasten-save")
    assert "saved bench.json: nothing was compared" in saved
    before = (tmp_path / "bench.json").read_bytes()
    text = _pytest(tmp_path)
    assert "1 passed" in text or "times as long as when it was saved" in text
    assert (tmp_path / "bench.json").read_bytes() == before


@pytest.mark.parametrize(("line", "outcome"), [("pass", "1 passed"), ("import torch", "1 failed")])
def test_pytest_starts_without_torch(line: str, outcome: str, tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text(
        f"import sys\n{line}\n\n\n"
        "def test_other(pytestconfig):\n"
        "    assert pytestconfig.pluginmanager.has_plugin('hasten.pytest_plugin')\n"
        "    assert not {'torch', 'numpy', 'rich', 'hasten.tune'} & set(sys.modules)\n"
    )
    assert outcome in _pytest(tmp_path)


def test_beside_other_tests_nothing_is_measured(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "def pytest_configure(config):\n    config.workerinput = {}\n"  # as pytest-xdist does
    )
    (tmp_path / "test_speed.py").write_text("def test_speed(hasten_bench): hasten_bench.nothing\n")
    assert "run this without -n" in _pytest(tmp_path)


def test_pytest_finds_the_fixture_by_itself() -> None:
    """By the name of the module, so that ``-p`` with that name is no second registration."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module = "hasten.pytest_plugin"
    assert project["entry-points"]["pytest11"] == {module: module}
    parsed = importlib.metadata.EntryPoint(name=module, value=module, group="pytest11")
    assert parsed.load().hasten_bench
