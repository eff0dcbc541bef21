"""Leak police: a test that leaves something behind fails."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

# Before torch is loaded, here and in every process that a test starts: steps this small gain
# nothing by a second thread, and can take a hundred times as long waiting for it on busy cores.
os.environ["OMP_NUM_THREADS"] = "1"
# Processes that tests start write through buffers and keep compiled code, as those of users do.
for name in ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"):
    os.environ.pop(name, None)


KEPT = Path(tempfile.gettempdir(), f"hasten-tests-of-{os.getuid()}")
"""What tests keep in the default cache: made once for all, and nothing in the user's own."""
os.environ["XDG_CACHE_HOME"] = str(KEPT)

LONGEST = ("tune", "cli", "train")
"""Folders of tests that take minutes: first, so that no core is left alone with them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.parent.name not in LONGEST)


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """No child process, environment variable, working folder or torch setting may change."""
    before = _state()
    yield
    after = _state()
    for what in before:
        assert after[what] == before[what], f"the test left its mark on: {what}"


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_at_the_end() -> Iterator[None]:
    """Labs may live as long as a module's tests; what they fork workers from is gone with them."""
    yield
    assert not [each for each in _children() if "hasten.measure.nursery" in each.cmdline()]


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _state() -> dict[str, object]:
    import torch

    children = [child for child in _children() if _lives(child)]
    # torch sets these itself when its compiler is first used.
    compilers = ("TORCHINDUCTOR_", "_TORCHINDUCTOR_", "TRITON_")
    names = {name for name in os.environ if not name.startswith(compilers)}
    names -= {"PYTEST_CURRENT_TEST"}
    return {
        "children": [child.cmdline() for child in children],
        "environment": {name: os.environ[name] for name in names},
        "folder": Path.cwd(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "dtype": torch.get_default_dtype(),
        "matmul": torch.get_float32_matmul_precision(),
        "gradients": torch.is_grad_enabled(),
    }


def _lives(process: psutil.Process) -> bool:
    try:
        # Kept for the life of the interpreter: torch.compile's pool, and multiprocessing's own.
        kept = ("torch/_inductor", "multiprocessing.forkserver", "multiprocessing.resource_tracker")
        kept += ("hasten.measure.nursery",)  # for the life of a lab
        command = " ".join(process.cmdline())
        return process.status() != psutil.STATUS_ZOMBIE and not any(map(command.count, kept))
    except psutil.NoSuchProcess:
        return False
