"""Functions that other processes are sent, as builders of parts."""

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from hasten.data.strings import Strings


def rows(part: int, width: int = 2) -> Any:
    return np.full((part, width), part)


def table(part: int) -> Any:
    return {
        "numbers": np.arange(part),
        "texts": Strings.of([str(part)] * part),
        "pid": [os.getpid()],
    }


def failing(part: int) -> Any:
    if part == 3:
        raise LookupError("no such row")
    return part


def dying(part: int) -> Any:
    if part == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return part


def drawing(part: int) -> Any:
    return random.random() + part


def unsendable(part: int) -> Any:
    return lambda: part


def endless(part: int, prefix: str) -> Any:
    Path(f"{prefix}{os.getpid()}").touch()
    time.sleep(600)
