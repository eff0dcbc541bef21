"""A training whose disk is full, or may not be written: real and small ones."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from processes import task

from namespaces import namespace

SCRIPT = """
import json, subprocess, sys
from pathlib import Path
from hasten.checkpoint.store import Store
folder, options, *command = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=True)
if "ro" in options:
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
ended = subprocess.run(command, capture_output=True, text=True)
run = Path(folder) / "run"
print(json.dumps({
    "code": ended.returncode,
    "said": ended.stderr,
    "steps": Store(run).steps() if run.exists() else [],
    "left": sorted(each.name for each in run.iterdir()) if run.exists() else [],
}))
"""


def train_on(folder: Path, options: str, *flags: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "hasten", "train", task("make_task_without_workers")]
    command += ["--steps", "60", "--checkpoint-dir", str(folder / "run"), *flags]
    ended = subprocess.run(
        [*namespace(), sys.executable, "-c", SCRIPT, str(folder), options, *command],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


def test_a_checkpoint_that_finds_no_room_stops_the_run_and_leaves_those_before(
    tmp_path: Path,
) -> None:
    told = train_on(tmp_path, "size=100k", "--checkpoint-every", "5")
    assert told["code"] == 2
    assert f"error: The checkpoint {tmp_path}/run/step-" in told["said"]
    assert " bytes was not written: [Errno 28] No space left on device" in told["said"]
    assert told["steps"]
    names = [f"step-{step:08d}" for step in told["steps"]]
    assert [name for name in told["left"] if name.startswith("step-")] == names


def test_a_folder_that_may_not_be_written_is_refused_before_any_step(tmp_path: Path) -> None:
    told = train_on(tmp_path, "ro")
    assert told["code"] == 2
    assert "is not a place to write checkpoints to" in told["said"]
    assert "step 50" not in told["said"]
