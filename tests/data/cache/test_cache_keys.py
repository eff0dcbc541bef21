"""What a key sees of code and of arguments: whatever changes the result, and nothing else."""

import collections
import dataclasses
import datetime
import enum
import functools
import math
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch

from hasten.data.strings import Strings
from hasten.errors import HastenError
from keyed import key_of


def take(value: object) -> None:
    """A builder with one argument of any kind."""


SOURCE = """
import math
import other
from other import twice
LIMIT = 3

class Scale:
    factor = 2.0
    def apply(self, x):
        return x * self.factor

def helper(x, power=2):
    return x ** power

def decorate(function):
    def wrapper(*args):
        return function(*args)
    return wrapper

@decorate
def build(x):
    inner = [helper(y) for y in range(LIMIT)]
    return Scale().apply(x) + sum(inner) + twice(x) + other.thrice(x) + math.pi
"""
OTHER = """
FACTOR = 3
def twice(x):
    return 2 * x
def thrice(x):
    return FACTOR * x
def unused(x):
    return 4 * x
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("factor = 2.0", "factor = 2.5"),
        ("x * self.factor", "x / self.factor"),
        ("power=2", "power=3"),
        ("x ** power", "x ** power + 1"),
        ("return function(*args)", "return function(*args) + 1"),
        ("range(LIMIT)", "range(LIMIT, 9)"),
        ("math.pi", "math.e"),
        ("+ sum(inner)", "- sum(inner)"),
        ("@decorate\n", ""),
    ],
)
def test_a_change_of_code_that_the_builder_refers_to_changes_the_key(
    module: Callable[..., Any], old: str, new: str
) -> None:
    before = key_of(module(SOURCE, other=OTHER), 1)
    assert old in SOURCE
    assert key_of(module(SOURCE.replace(old, new), other=OTHER), 1) != before


@pytest.mark.parametrize(
    ("old", "new"), [("2 * x", "2.5 * x"), ("FACTOR = 3", "FACTOR = 5"), ("FACTOR *", "FACTOR +")]
)
def test_a_change_in_another_module_of_the_users_changes_the_key(
    module: Callable[..., Any], old: str, new: str
) -> None:
    before = key_of(module(SOURCE, other=OTHER), 1)
    assert key_of(module(SOURCE, other=OTHER.replace(old, new)), 1) != before


def test_what_the_builder_does_not_refer_to_is_no_part_of_its_key(
    module: Callable[..., Any],
) -> None:
    before = key_of(module(SOURCE, other=OTHER), 1)
    moved = "\n\n# a comment\n" + SOURCE + "\nUNUSED = 7\n"
    assert key_of(module(moved, other=OTHER.replace("4 * x", "5 * x")), 1) == before


@pytest.mark.parametrize("line", ["from other import twice", "import other"])
def test_an_import_within_the_function_is_followed(module: Callable[..., Any], line: str) -> None:
    source = f"def build(x):\n    {line}\n    return x\n"
    before = key_of(module(source, other=OTHER), 1)
    assert key_of(module(source, other=OTHER.replace("2 * x", "x + x")), 1) != before
    assert key_of(module(source, other=OTHER), 1) == before


def test_a_global_that_is_set_anew_changes_the_key(module: Callable[..., Any]) -> None:
    build = module("N = 1\ndef build():\n    return N\n")
    before = key_of(build)
    build.__globals__["N"] = 2
    assert key_of(build) != before
    build.__globals__["N"] = 1.0
    assert key_of(build) != before
    build.__globals__["N"] = 1
    assert key_of(build) == before


def test_a_closure_and_a_partial_are_told_by_what_they_hold() -> None:
    def make(n: int) -> Callable[[], int]:
        return lambda: n

    assert key_of(make(1)) == key_of(make(1)) != key_of(make(2))
    double = functools.partial(pow, 2)
    assert key_of(double, 3) == key_of(functools.partial(pow, 2), 3)
    assert key_of(double, 3) != key_of(functools.partial(pow, 3), 3)
    assert key_of(functools.lru_cache(make(1))) != key_of(functools.lru_cache(make(2)))


WRAPPED = """
import contextlib, functools, torch
@torch.no_grad()
def quiet(x):
    return x + 1
@functools.singledispatch
def shown(x):
    return 1
@shown.register
def shown_int(x: int):
    return 2
@contextlib.contextmanager
def around():
    yield 3
@functools.lru_cache
def remembered(x):
    return 4
def build(x):
    with around() as y:
        return quiet(x) + shown(x) + y + remembered(x)
"""


@pytest.mark.parametrize("old", ["x + 1", "return 1", "return 2", "yield 3", "return 4"])
def test_a_function_that_a_package_has_wrapped_is_seen(
    module: Callable[..., Any], old: str
) -> None:
    before = key_of(module(WRAPPED), 1)
    assert key_of(module(WRAPPED.replace(old, f"{old} + 10")), 1) != before
    assert key_of(module(WRAPPED), 1) == before


def test_functions_that_call_one_another_have_a_key(module: Callable[..., Any]) -> None:
    source = "def build(n):\n    return other(n)\ndef other(n):\n    return n and build(n - 1)\n"
    before = key_of(module(source), 1)
    assert key_of(module(source.replace("n - 1", "n - 2")), 1) != before


def test_the_version_of_a_package_is_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    from hasten.data.cache.keys import packages

    def build() -> object:
        return pd.DataFrame()

    before, plain = key_of(build), key_of(take, 1)
    known = packages.package_version
    monkeypatch.setattr(
        packages, "package_version", lambda top: "9.9" if top == "pandas" else known(top)
    )
    assert key_of(build) != before
    assert key_of(take, 1) == plain


@pytest.mark.parametrize("package", ["torch", "numpy"])
def test_fault_20_another_version_of_torch_or_numpy_is_another_key(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hasten.data.cache.keys import key

    before, known = key_of(take, 1), key.package_version
    monkeypatch.setattr(key, "package_version", lambda top: "0.1" if top == package else known(top))
    assert key_of(take, 1) != before


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Settings:
    size: int
    names: tuple[str, ...] = ()


class Point(NamedTuple):
    x: int
    y: int


FRAME = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
DISTINCT: list[Any] = [
    None, True, 1, 1.0, 0.0, -0.0, math.nan, math.inf, 1j, "1", b"1", bytearray(b"1"), "", b"", ...,
    [], (), {}, set(), frozenset(), [1], (1,), [[1]], [1, 2], [2, 1], {"a": 1}, {"a": 2}, {1: "a"},
    {"a": 1, "b": 2}, {"b": 2, "a": 1}, {1, 2}, {1, 3}, ["ab", "c"], ["a", "bc"], ["a:1:b"],
    collections.deque([1]), collections.deque([1], maxlen=1),
    slice(1, 2), slice(1, 2, 3), range(3), range(4),
    np.array([1, 2]), np.array([1, 2], np.int32), np.array([1.0, 2.0]), np.array([[1, 2]]),
    np.array([2, 1]), np.array([1, 2], ">i8"), np.float64(1), np.float32(1), np.array(1.0),
    np.zeros((0, 2)), np.zeros((2, 0)), np.array(["a", "b"]), np.array(["a", "b"], object),
    np.array(["2020-01-01"], "datetime64[D]"), np.array(["2020-01-01"], "datetime64[s]"),
    np.array([(1, 2.0)], [("a", "i4"), ("b", "f4")]), np.dtype("f4"), np.dtype("f8"),
    torch.tensor([1, 2]), torch.tensor([1, 2], dtype=torch.int32), torch.tensor([1.0, 2.0]),
    torch.tensor([1.0, 2.0], dtype=torch.bfloat16), torch.tensor(1.0), torch.zeros(0),
    torch.tensor([1.0, 2.0], requires_grad=True), torch.nn.Parameter(torch.tensor([1.0, 2.0])),
    torch.float32, torch.float64, torch.device("cpu"), torch.Size([1]),
    Color.RED, Color.BLUE, Settings(1), Settings(2), Settings(1, ("a",)), Point(1, 2), Point(2, 1),
    datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1), datetime.timedelta(1),
    datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), Strings.of(["a", "b"]), Strings.of(["ab"]),
    FRAME, FRAME.assign(a=[1, 3]), FRAME.rename(columns={"a": "c"}), FRAME.set_index("a"),
    FRAME.a, FRAME.a.rename("c"), FRAME.astype({"a": "int32"}), FRAME.b.astype("category"),
    FRAME.index, pd.date_range("2020", periods=1), pd.DatetimeIndex(["2020-01-01"]),
    len, math.sqrt, np.add, np.sin, int, Settings, Point, Color, math,
]  # fmt: skip


def test_different_arguments_have_different_keys() -> None:
    keys = [key_of(take, value) for value in DISTINCT]
    for key in keys:
        same = [DISTINCT[other] for other, each in enumerate(keys) if each == key]
        assert len(same) == 1, same
    assert keys == [key_of(take, value) for value in DISTINCT]


def test_equal_content_has_one_key_wherever_it_lies() -> None:
    array = np.arange(12.0).reshape(3, 4)
    assert (
        key_of(take, array) == key_of(take, array.copy()) == key_of(take, np.asfortranarray(array))
    )
    assert key_of(take, array[:, ::2]) == key_of(take, array[:, ::2].copy())
    tensor = torch.arange(6).reshape(2, 3)
    assert key_of(take, tensor.T) == key_of(take, tensor.T.contiguous())
    assert key_of(take, [array, array]) == key_of(take, [array, array.copy()])
    assert key_of(take, Strings.of(["x", "a"])[1:]) == key_of(take, Strings.of(["a"]))


def test_a_call_has_one_key_however_it_is_written() -> None:
    def build(a: int, b: int = 2, *more: int, c: int = 3) -> None: ...

    assert (
        key_of(build, 1) == key_of(build, a=1) == key_of(build, 1, b=2) == key_of(build, 1, 2, c=3)
    )
    assert key_of(build, 1, 2, 3) != key_of(build, 1, 2, c=3)


class Stranger:
    pass


REFUSED: list[tuple[Any, str]] = [
    (Stranger(), "test_cache_keys.Stranger"),
    (np.random.default_rng(0), "numpy.random._generator.Generator"),
    (np.random.RandomState(0), "RandomState"),
    (torch.Generator(), "Generator"),
    (random.Random(0), "random.Random"),
    (iter([1]), "iterator"),
    ((each for each in [1]), "generator"),
    (np.ma.masked_array([1, 2]), "MaskedArray"),
    (torch.eye(2).to_sparse(), "Tensor"),
    (torch.empty(1, device="meta"), "Tensor"),
    (np.array([(1, None)], [("a", "i4"), ("b", "O")]), "ndarray"),
    ({"deep": [Stranger()]}, "argument 'value' of test_cache_keys.take['deep'][0]"),
    (np.random.default_rng(0).normal, "Generator"),
]


@pytest.mark.parametrize(("value", "named"), REFUSED, ids=lambda value: str(type(value).__name__))
def test_what_has_no_digest_is_refused_with_its_name_type_and_what_to_do(
    value: Any, named: str
) -> None:
    with pytest.raises(HastenError, match=r"argument 'value' of test_cache_keys\.take") as error:
        key_of(take, value)
    assert named in error.value.what
    assert "key=" in error.value.fix


def test_a_global_that_has_no_digest_is_refused_by_its_name(module: Callable[..., Any]) -> None:
    build = module("G = object()\ndef build():\n    return G\n")
    with pytest.raises(HastenError, match=r"the global 'G', which the builder own\.build uses"):
        key_of(build)


def test_a_circle_has_an_end(module: Callable[..., Any]) -> None:
    one: list[Any] = [1]
    other: list[Any] = [2]
    one.append(one)
    other.append(other)
    assert key_of(take, one) == key_of(take, one) != key_of(take, other)
    source = """
def leaf(x):
    return 1
def node(x):
    return sum(HANDLERS[each](each) for each in x) + len(USED)
HANDLERS = {int: leaf, list: node}
USED = {leaf, node}
def build(x):
    return HANDLERS[type(x)](x)
"""
    before = key_of(module(source), 1)
    assert key_of(module(source), 1) == before
    assert key_of(module(source.replace("return 1", "return 2")), 1) != before


def test_a_key_is_the_same_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "WORDS = {'a', 'b', 'c', 'd'}\n"
        "def build(x):\n    return x in WORDS or x in {'e', 'f', 'g'}\n"
    )
    code = """
import own
from hasten.data.cache.keys.files import FileDigests
from hasten.data.cache.keys.key import make_key
arguments = {"x": [{"x", "y", "z"}, (1, None), {"k": 2.5}]}
print(make_key(own.build, arguments, files=[], file_digests=FileDigests()).digest)
"""
    paths = [str(tmp_path), *sys.path]
    keys = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(3)
    }
    assert len(keys) == 1


def test_code_in_c_of_no_package_is_refused() -> None:
    class Nobodys(bytes):
        pass

    Nobodys.__module__ = "nobodys_module"
    with pytest.raises(HastenError, match="is no code that can be read"):
        key_of(Nobodys(b"x").upper)
