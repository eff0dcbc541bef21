"""The main job by the real command: to its end, and stopped on the way."""

import hashlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jsonschema
import msgspec
import psutil
import pytest
from click.testing import CliRunner

from endings import still_alive
from hasten import flow
from hasten.cli.tune import tune
from hasten.records.plan import NAIVE
from hasten.records.recipe import Evidence, read_recipe
from hasten.records.record import from_json
from hasten.records.trial import Trial
from hasten.tune.journal import Journal
from hasten.tune.spending import Stopwatch
from specimens import PROVEN
from terminal import lines_seen, run_on_terminal

PLANTED = Path(__file__).parents[1] / "tasks" / "planted.py"


BRISK = f"""
import sys
sys.path.insert(0, {str(PLANTED.parents[1])!r})
import quick
quick.shorten()
from hasten.cli.main import main
main()
"""
"""The training sleeps by a pretended clock: what it gains shows at once."""


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "hasten", *arguments]


@pytest.mark.timeout(600)  # minutes of real measuring, which a busy machine stretches
def test_a_killed_tune_goes_on_to_a_recipe_that_is_proven_again(tmp_path: Path) -> None:
    """One long test: the whole chain on a task whose update takes most of the step."""
    task, out = f"{PLANTED.with_name('sleeping.py')}:sleeps", tmp_path / "out"
    command = [sys.executable, "-c", BRISK, "tune", task, "--out", "out", "--minutes", "0.5"]
    killed = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    _wait_until(lambda: _tried(out), "no trial was noted")
    killed.kill()
    killed.wait()
    before = _tried(out)

    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "PROVEN" in ended.stdout
    assert "slow-optimizer" in ended.stdout
    assert "note: going on from what is in out; trials taken over: " in ended.stderr
    tried = _tried(out)
    assert tried[: len(before)] == before
    assert len(set(tried)) == len(tried), "nothing is tried twice"

    content = (out / "evidence.json").read_bytes()
    recipe = read_recipe(out / "recipe.toml")
    evidence = from_json(content, Evidence, where="evidence.json")
    assert recipe.evidence_sha256 == hashlib.sha256(content).hexdigest()
    assert evidence.verdict == "proven"
    assert "wakes" in recipe.plan
    assert evidence.speed is not None
    assert evidence.speed.low > evidence.speed.noise_floor >= 1.01
    assert [trial.key() for trial in evidence.trials] == tried
    assert evidence.diagnosed[0].plan == NAIVE
    assert evidence.curves is not None
    assert evidence.curves.naive or evidence.curves.failure
    assert evidence.spent.curves_s > 0
    schema = json.loads((out / "recipe.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)

    again = subprocess.run([*command, "--json"], cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert "trying" not in again.stderr, "it is only proven again"
    assert "going on" not in again.stderr
    assert json.loads(again.stdout)["proven_again"] == evidence.created

    proof = subprocess.run(
        _command("prove", task, "out/recipe.toml", "--json"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert proof.returncode == 0, proof.stdout + proof.stderr
    assert json.loads(proof.stdout)["verdict"] == "proven"


def _tried(out: Path) -> list[str]:
    """The keys of all trials in the journal, in their order."""
    if not (out / "journal.jsonl").exists():
        return []
    lines = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    found = [msgspec.convert(each["trial"], Trial) for each in lines if "trial" in each]
    return [trial.key() for trial in found]


ONE_ARM, BOTH_ARMS = 4, 5
"""What workers are forked from, one, and its two loader workers, while a step is looked into; more
once two are timed."""


@pytest.mark.parametrize(
    ("number", "code", "word", "processes"),
    [
        (signal.SIGINT, 130, "interrupted", BOTH_ARMS),
        (signal.SIGTERM, 143, "terminated", ONE_ARM),
    ],
)
def test_a_stopped_tune_leaves_no_process_and_keeps_its_journal(
    number: signal.Signals, code: int, word: str, processes: int, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        _command("tune", f"{PLANTED}:with_loader_workers", "--out", "out"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    family = _wait_for(processes, process, tmp_path / "out/journal.jsonl")
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == code, errors
    assert word in errors
    assert "Nothing was learnt yet: the same command begins anew." in errors
    assert not still_alive(family)
    left = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()]
    assert left == ["out/journal.jsonl"]
    for line in (tmp_path / "out/journal.jsonl").read_text().splitlines():
        json.loads(line)


def test_what_is_stopped_with_something_learnt_says_where_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(task: str, *, out: Path, **_: object) -> None:
        with Journal(out, Stopwatch()) as journal:
            journal.note(PROVEN.control)  # the first line is of the subject
            journal.note(PROVEN.trials[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(flow, "tune", stopped)
    out = tmp_path / "out"
    ended = CliRunner().invoke(tune, ["train.py:make_task", "--out", str(out)])
    assert ended.exit_code != 0
    assert f"What was learnt so far is in {out / 'journal.jsonl'}: the same" in ended.output


def test_what_is_stopped_leaves_an_earlier_recipe_as_it_is_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(flow, "tune", stopped)
    (tmp_path / "recipe.toml").write_text("mine")
    ended = CliRunner().invoke(tune, ["train.py:make_task", "--out", str(tmp_path)])
    assert f"{tmp_path / 'recipe.toml'} is kept." in ended.output
    assert "Nothing was learnt" not in ended.output


def test_a_tune_on_a_terminal_is_one_live_line_and_ctrl_c_leaves_it_clean(tmp_path: Path) -> None:
    code, written = run_on_terminal(
        _command("tune", f"{PLANTED}:small", "--out", "out"),
        100,
        folder=tmp_path,
        interrupt_at="measuring the noise of this machine",
    )
    assert code == 130, written
    lines = lines_seen(written)
    assert any("measuring: building " in line for line in lines)
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l"), "the cursor is back"
    after = lines_seen(written[written.rindex("\x1b[?25h") :])
    assert not [line for line in after if "measuring" in line], "nothing is drawn any more"
    assert any("interrupted" in line for line in after)


def _wait_for(count: int, process: subprocess.Popen[str], journal: Path) -> list[psutil.Process]:
    """Until the journal has begun and so many processes are up."""

    def family() -> list[psutil.Process]:
        return psutil.Process(process.pid).children(recursive=True)

    _wait_until(lambda: journal.exists() and len(family()) >= count, "the arms did not come up")
    return family()


def _wait_until(condition: Callable[[], object], problem: str) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, problem
        time.sleep(0.05)


def test_a_killed_tune_leaves_no_process(tmp_path: Path) -> None:
    process = subprocess.Popen(
        _command("tune", f"{PLANTED}:with_loader_workers", "--out", "out"),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    family = _wait_for(ONE_ARM, process, tmp_path / "out/journal.jsonl")  # type: ignore[arg-type]
    process.kill()
    process.wait()
    assert not still_alive(family)
