"""Modules of the user's own, which tests write and change."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Writes modules of the user's own, imports them anew and gives the function ``build``."""
    monkeypatch.syspath_prepend(tmp_path)
    written: set[str] = set()

    def write(source: str, **others: str) -> Any:
        for name, text in {**others, "own": source}.items():
            path = tmp_path / f"{name.replace('.', '/')}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            written.add(name.removesuffix(".__init__"))
        for name in written:
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        # As bytecode is kept by the second, two versions of a file could pass for one.
        for stale in tmp_path.rglob("__pycache__/*"):
            stale.unlink()
        return importlib.import_module("own").build

    yield write
    for name in written:
        sys.modules.pop(name, None)
