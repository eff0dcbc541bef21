"""A dated results file: figures with hardware, versions, command and commit."""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from hasten.host.environment import read_environment

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / "results"


def _git(*arguments: str) -> str:
    try:
        ended = subprocess.run(["git", *arguments], capture_output=True, text=True)
    except FileNotFoundError:
        return ""  # a machine with the files only; the caller names the commit
    return ended.stdout.strip()


COMMIT, CHANGED = _git("rev-parse", "HEAD"), _git("diff", "--name-only", "HEAD").splitlines()
"""Of what runs, not of what is there when a long run has ended."""


def _command(arguments: list[str]) -> str:
    """Without folders of this machine: where the results went, and where trees to read lie."""
    command = re.sub(r" --out \S+", "", " ".join(["python", *arguments]))
    return re.sub(r" --tree (\w+)=\S+", r" --tree \1=FOLDER", command)


def write_results(
    name: str, figures: dict[str, Any], *, commit: str = "", folder: Path = RESULTS
) -> Path:
    now = datetime.now(UTC)
    document = {
        "benchmark": name,
        "date": now.isoformat(timespec="seconds"),
        "command": _command(sys.argv),
        "commit": commit or COMMIT,
        "changed_files": [] if commit else CHANGED,
        "environment": msgspec.to_builtins(read_environment()),
        **figures,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{now:%Y-%m-%d}-{name}.json"
    text = json.dumps(document, indent=1).replace(f"{ROOT}/", "")  # places in our own files
    path.write_text(text + "\n")
    print(f"wrote {path}")
    return path
