"""A Python process of ours, in a session of its own: no Ctrl-C of a terminal reaches it."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import BinaryIO


def start_module(
    module: str, descriptors: Sequence[int], output: BinaryIO
) -> "subprocess.Popen[bytes]":
    """It gets the descriptors, our process id and the time by the clock that all processes share,
    as arguments; what it prints goes to ``output``."""
    told = (*descriptors, os.getpid(), time.monotonic())
    return subprocess.Popen(
        [sys.executable, "-m", module, *map(str, told)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        pass_fds=tuple(descriptors),
        start_new_session=True,
    )
