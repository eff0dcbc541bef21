"""Changes of code that are easily missed, and would give the result of the code before."""

import functools
import importlib
import importlib.machinery
import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hasten.data import DatasetCache, cached
from hasten.data.cache.keys import packages
from keyed import key_of

HIDDEN: dict[str, tuple[str, dict[str, str]]] = {
    "a method with two underscores that is no function": (
        "class C:\n    @functools.lru_cache\n    def __call__(self, x):\n        return x + OLD\n"
        "def build(x):\n    return C()(x)\n",
        {},
    ),
    "a value of a class with two underscores": (
        "class C:\n    __scale__ = OLD\ndef build(x):\n    return x * C.__scale__\n",
        {},
    ),
    "slots": (
        "class C:\n    __slots__ = ('a', 'OLD')\ndef build(x):\n    return C.__slots__\n",
        {},
    ),
    "an attribute of a function": (
        "def helper(x):\n    return x * helper.factor\nhelper.factor = OLD\n"
        "def build(x):\n    return helper(x)\n",
        {},
    ),
    "what a package's decorator was told": (
        "import torch\n@torch.autocast('cpu', dtype=torch.OLD)\ndef helper(x):\n    return x\n"
        "def build(x):\n    return helper(x)\n",
        {},
    ),
    "what a package's decorator was told in words": (
        "import torch\n@torch.profiler.record_function('/usr/OLD')\ndef helper(x):\n    return x\n"
        "def build(x):\n    return helper(x)\n",
        {},
    ),
    "a decorator of one's own that a package calls": (
        "import contextlib\nclass Around(contextlib.ContextDecorator):\n"
        "    def __enter__(self):\n        return OLD\n"
        "    def __exit__(self, *error):\n        pass\n"
        "@Around()\ndef helper(x):\n    return x\ndef build(x):\n    return helper(x)\n",
        {},
    ),
    "a module with the name of one of Python's": (
        "from statistics import mean\ndef build(x):\n    return mean(x)\n",
        {"statistics": "def mean(x):\n    return OLD\n"},
    ),
    "the package around a module that is imported within": (
        "def build(x):\n    import around.inner\n    return around.FACTOR\n",
        {"around.__init__": "FACTOR = OLD\n", "around.inner": ""},
    ),
}
WORDS = {
    "slots": ("b", "c"),
    "what a package's decorator was told": ("bfloat16", "float16"),
    "what a package's decorator was told in words": ("bin", "lib"),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_hidden_change_of_code_changes_the_key(
    module: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    source, others = HIDDEN[name]
    monkeypatch.delitem(sys.modules, "statistics", raising=False)

    def key(word: str) -> str:
        texts = {each: text.replace("OLD", word) for each, text in others.items()}
        return key_of(module(f"import functools\n{source}".replace("OLD", word), **texts), 1)

    one, other = WORDS.get(name, ("1", "2"))
    before = key(one)
    assert key(other) != before
    assert key(one) == before


def test_a_compiled_module_of_the_users_counts_by_its_file(
    module: Callable[..., Any], tmp_path: Path
) -> None:
    build = module("def build(x):\n    import kernels\n    return kernels.fast(x)\n")
    binary = tmp_path / f"kernels{importlib.machinery.EXTENSION_SUFFIXES[0]}"
    binary.write_bytes(b"\x7fELF one")
    importlib.invalidate_caches()
    before = key_of(build, 1)
    binary.write_bytes(b"\x7fELF two")
    assert key_of(build, 1) != before


def test_an_edit_of_a_module_that_stays_loaded_does_not_pass_for_the_new_code(
    module: Callable[..., Any], tmp_path: Path
) -> None:
    source = "def build(x):\n    import other\n    return other.value()\n"
    build = module(source, other="def value():\n    return 1\n")
    build(1)
    before = key_of(build, 1)
    (tmp_path / "other.py").write_text("def value():\n    return 22\n")
    stale = key_of(build, 1)
    assert stale != before
    assert build(1) == 1
    importlib.reload(sys.modules["other"])
    assert build(1) == 22
    assert key_of(build, 1) not in (stale, before)
    assert key_of(module(source, other="def value():\n    return 1\n"), 1) == before


def test_a_class_of_a_program_on_the_command_line_counts_by_its_code() -> None:
    code = """
import dataclasses
from keyed import key_of
@dataclasses.dataclass
class C:
    size: int = 1
    def value(self):
        return {}
def build(x):
    return C().value()
print(key_of(build, 1))
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    keys = [
        subprocess.run(
            [sys.executable, "-c", code.format(value)],
            env=env, capture_output=True, text=True, check=True,
        ).stdout
        for value in (1, 2, 1)
    ]  # fmt: skip
    assert keys[0] == keys[2] != keys[1]


def test_how_torch_is_set_is_part_of_the_key() -> None:
    def build() -> Any:
        return torch.zeros(2)

    before = key_of(build)
    keys = {before}
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast("cpu", dtype=dtype):
            keys.add(key_of(build))
    with torch.device("meta"):
        keys.add(key_of(build))
    torch.set_default_dtype(torch.float64)
    torch.set_float32_matmul_precision("high")
    try:
        keys.add(key_of(build))
        torch.set_default_dtype(torch.float32)
        keys.add(key_of(build))
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_float32_matmul_precision("highest")
    assert len(keys) == 6
    assert key_of(build) == before


def test_all_packages_of_a_namespace_are_in_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"shared": ["one", "two", "one"]}
    monkeypatch.setattr(importlib.metadata, "packages_distributions", lambda: found)
    known = {"one": "1.0", "two": "2.0"}

    def version(name: str) -> str:
        if name not in known:
            raise importlib.metadata.PackageNotFoundError(name)
        return known[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    packages._distributions.cache_clear()
    assert packages.package_version.__wrapped__("shared") == "1.0, 2.0"
    packages._distributions.cache_clear()


def test_the_defaults_of_a_decorator_are_its_own() -> None:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function("given", *args, **{"scale": 5, **kwargs})

        return wrapper

    @decorate
    def build(given: str, x: int, scale: int = 1) -> int:
        return x * scale

    assert key_of(build, 1) != key_of(build, 1, scale=1)


def test_another_key_function_is_another_key(tmp_path: Path) -> None:
    def build(sizes: dict[str, int]) -> Any:
        return np.full(2, sizes["a"] + sizes["b"])

    cache = DatasetCache(tmp_path / "cache")
    one = cached(build, cache=cache, key=lambda sizes: sizes["a"])  # which forgets the other
    both = cached(build, cache=cache, key=lambda sizes: sizes["a"] + sizes["b"])
    assert one({"a": 3, "b": 1}).tolist() == [4, 4]
    assert both({"a": 1, "b": 2}).tolist() == [3, 3]
