"""Processes with mounts of their own, for disks that are small or may not be written."""

import os
import subprocess
from functools import cache

import pytest


@cache
def namespace() -> list[str]:
    """The command that gives a child its own mounts; skips where that is not permitted."""
    flags = "-m" if os.geteuid() == 0 else "-rm"
    command = ["unshare", flags]
    try:
        tried = subprocess.run(
            [*command, "mount", "-t", "tmpfs", "none", "/tmp"], capture_output=True, text=True
        )
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    if tried.returncode != 0:
        pytest.skip(f"no mounts of one's own here: {tried.stderr.strip()}")
    return command
