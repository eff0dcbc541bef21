"""The main job by the real command: to its end, and stopped on the way."""

import hashlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import psutil
import pytest

from hasten.records.recipe import Evidence, read_recipe
from hasten.records.record import from_json

PLANTED = Path(__file__).parents[1] / "tasks" / "planted.py"


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "hasten", *arguments]


@pytest.mark.timeout(600)  # minutes of real measuring, which a busy machine stretches
def test_tune_proves_a_recipe_that_bench_and_prove_accept(tmp_path: Path) -> None:
    """One long test: the whole chain on a task whose loader takes most of the step."""
    task = f"{PLANTED}:slow_loader"
    ended = subprocess.run(
        _command("tune", task, "--out", "out", "--minutes", "1"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "PROVEN" in ended.stdout
    assert "data-wait" in ended.stdout

    content = (tmp_path / "out/evidence.json").read_bytes()
    recipe = read_recipe(tmp_path / "out/recipe.toml")
    evidence = from_json(content, Evidence, where="evidence.json")
    assert recipe.evidence_sha256 == hashlib.sha256(content).hexdigest()
    assert evidence.verdict == "proven"
    assert "batched_loader" in recipe.plan
    assert evidence.speed is not None
    assert evidence.speed.low > evidence.speed.noise_floor >= 1.01
    tried = {trial.candidate.technique for trial in evidence.trials}
    assert len(tried) == len(evidence.trials)
    lines = (tmp_path / "out/journal.jsonl").read_text().splitlines()
    assert sum("trial" in json.loads(line) for line in lines) == len(evidence.trials)
    schema = json.loads((tmp_path / "out/recipe.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)

    proof = subprocess.run(
        _command("prove", task, "out/recipe.toml", "--json"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert proof.returncode == 0, proof.stdout + proof.stderr
    assert json.loads(proof.stdout)["verdict"] == "proven"


ONE_ARM, BOTH_ARMS = 3, 4
"""A worker with its two loader workers, while a step is looked into; more once two are timed."""


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
    assert "out/journal.jsonl" in errors
    assert not [each for each in family if _alive(each)]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["journal.jsonl"]
    for line in (tmp_path / "out/journal.jsonl").read_text().splitlines():
        json.loads(line)


def _wait_for(count: int, process: subprocess.Popen[str], journal: Path) -> list[psutil.Process]:
    """Until the journal has begun and so many processes are up."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        family = psutil.Process(process.pid).children(recursive=True)
        if journal.exists() and len(family) >= count:
            return family
        time.sleep(0.05)
    raise AssertionError("the arms did not come up")


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
    deadline = time.monotonic() + 20
    while any(_alive(each) for each in family) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [each for each in family if _alive(each)]


def _alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
