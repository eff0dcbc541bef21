"""Disks that are full, have no room for files, or may not be written: real and small ones, mounted
in a namespace of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from namespaces import namespace

TESTS = Path(__file__).parents[1]
SETUP = """
import json, os, subprocess, sys
from pathlib import Path
from checkpoints import make_content
from hasten.checkpoint.store import Store
from hasten.errors import HastenError

folder = Path(sys.argv[1])

def mount(*options):
    subprocess.run(["mount", *options, str(folder)], check=True)

def attempt(call):
    try:
        call()
    except HastenError as error:
        return {"what": error.what, "fix": error.fix}

def tell(**told):
    found = sorted(str(each.relative_to(folder)) for each in folder.rglob("*"))
    read = Store(folder).read()
    step = read.manifest.position.step
    assert read.model["weight"].unique().tolist() == [step]
    print(json.dumps({"found": found, "step": step, "complaints": read.complaints, **told}))
"""
FULL = """
mount("-t", "tmpfs", "-o", "size=1m", "none")
with Store(folder) as store:
    store.write(make_content(5))
    error = attempt(lambda: store.write(make_content(10, numbers=500_000)))
    tell(error=error)
    store.write(make_content(20))
"""
NO_INODES = """
mount("-t", "tmpfs", "-o", "size=4m,nr_inodes=11", "none")
with Store(folder) as store:
    store.write(make_content(5))
    error = attempt(lambda: store.write(make_content(10)))
    tell(error=error)
"""
READ_ONLY = """
mount("-t", "tmpfs", "none")
with Store(folder) as store:
    store.write(make_content(5))
mount("-o", "remount,ro")
tell(error=attempt(Store(folder).open), inside=attempt(Store(folder / "deeper").open))
"""


def run(script: str, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    ended = subprocess.run(
        [*namespace(), sys.executable, "-c", SETUP + script, str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


FILES = ["manifest.json", "model.safetensors", "state.json", "state.safetensors"]
AS_BEFORE = [".lock", "latest", "step-00000005", *(f"step-00000005/{name}" for name in FILES)]


def test_a_full_disk_is_told_with_its_bytes_and_leaves_no_trace(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    told = run(FULL, folder)
    what = told["error"]["what"]
    assert what.startswith(f"The checkpoint {folder}/step-00000010 of 6,000,")
    assert "No space left on device" in what
    (free,) = [int(word.replace(",", "")) for word in what.split(" bytes are free")[0].split()[-1:]]
    assert 900_000 < free < 1 << 20
    assert told["error"]["fix"].startswith("Make room")
    assert (told["found"], told["step"], told["complaints"]) == (AS_BEFORE, 5, [])


def test_a_disk_without_room_for_files_is_told(tmp_path: Path) -> None:
    told = run(NO_INODES, tmp_path / "small")
    assert "No space left on device" in told["error"]["what"]
    assert "room for 3 files" in told["error"]["what"]
    assert (told["found"], told["step"], told["complaints"]) == (AS_BEFORE, 5, [])


def test_a_disk_that_may_only_be_read_is_read_and_not_written(tmp_path: Path) -> None:
    told = run(READ_ONLY, tmp_path / "small")
    for error in (told["error"], told["inside"]):
        assert "is not a place to write checkpoints to: Read-only file system" in error["what"]
    assert (told["found"], told["step"], told["complaints"]) == (AS_BEFORE, 5, [])
