"""What goes into a cache comes out again: values, types, read-only, mapped."""

import dataclasses
import math
import random
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hasten.data import DatasetCache, Strings, cached
from hasten.errors import HastenError


@pytest.fixture
def cache(tmp_path: Path) -> DatasetCache:
    return DatasetCache(tmp_path / "cache")


def same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return (
            one.dtype == other.dtype
            and one.shape == other.shape
            and one.tobytes() == other.tobytes()
        )
    if isinstance(one, torch.Tensor):
        whole = [each.resolve_conj().reshape(-1).contiguous() for each in (one, other)]
        bits = [each.view(torch.uint8) for each in whole]
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(*bits)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or (one != one and other != other)


RESULTS: list[Any] = [
    np.arange(6.0).reshape(2, 3),
    np.asfortranarray(np.arange(6).reshape(2, 3)),
    np.arange(10)[::3],
    np.arange(4, dtype=">i4"),
    np.zeros((0, 3), np.float32),
    np.zeros((3, 0)),
    np.array(5),
    np.float32(0.1),
    np.array([True, False]),
    np.array(["a", "ü", ""]),
    np.array([b"ab", b"c"]),
    np.array(["2020-01-01", "NaT"], "datetime64[s]"),
    np.array([(1, 2.5)], [("a", "<i4"), ("b", ">f8", (2,))]),
    np.array([1 + 2j]),
    torch.arange(6).reshape(2, 3).T,
    torch.tensor(2.5),
    torch.zeros(0, 4),
    *(torch.tensor([1.5, -2.0]).to(dtype) for dtype in (torch.bfloat16, torch.float8_e4m3fn)),
    torch.tensor([1.5, -2.0], dtype=torch.float16),
    torch.tensor([True, False]),
    torch.tensor([1, 2], dtype=torch.uint16),
    torch.tensor([1 + 2j]).conj(),
    Strings.of(["", "ü", "a\0b", "\ud800"]),
    Strings.of([]),
    Strings.of(["a", "bc", "d"])[1:],
    {"a": [1, (2.5, None)], 3: {"b": np.arange(2)}, None: True},
    [math.nan, math.inf, -0.0, 2**100, -1, "text\n", ""],
    (),
    None,
]  # fmt: skip


def stands_for_code() -> None:
    """The builder of results whose code is no matter."""


def keep(cache: DatasetCache, result: Any, name: object = 0) -> tuple[Any, bool]:
    """What the cache gives for a name, and whether it had to be built."""
    built: list[Any] = []

    def build(drawn: set[str]) -> Any:
        built.append(result)
        return result

    return cache.look_up(stands_for_code, {"name": name}, build), bool(built)


@pytest.mark.parametrize("number", range(len(RESULTS)))
def test_a_result_comes_back_as_it_was(cache: DatasetCache, number: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, built = keep(cache, RESULTS[number])
        second, again = keep(cache, RESULTS[number])
    assert (built, again) == (True, False)
    assert same(first, RESULTS[number])
    assert same(second, RESULTS[number])


def test_arrays_are_mapped_and_read_only_from_the_first_call_on(cache: DatasetCache) -> None:
    for _ in range(2):
        array, _ = keep(cache, np.arange(5))
        assert not array.flags.writeable
        assert not array.flags.owndata
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_what_is_written_to_a_tensor_stays_in_this_process(cache: DatasetCache) -> None:
    tensor, _ = keep(cache, torch.zeros(3))
    tensor += 1
    assert keep(cache, None)[0].tolist() == [0, 0, 0]


REFUSED: list[tuple[Any, str]] = [
    (np.array([{}]), "the result is a numpy.ndarray, which has objects in it"),
    ({"a": [object()]}, r"the result\['a'\]\[0\] is a builtins.object"),
    (np.ma.masked_array([1]), "may hold more than its numbers"),
    (torch.ones(1, requires_grad=True), "requires gradients"),
    (torch.eye(2).to_sparse(), "may hold more"),
    (["text"] * 10_001, "more than 10,000 values outside arrays"),
    ({(1, 2): 3}, "a key of the result"),
    ("\ud800", "halves of characters"),
]


@pytest.mark.parametrize(("result", "what"), REFUSED, ids=[what for _, what in REFUSED])
def test_a_result_that_cannot_be_kept_is_refused(
    cache: DatasetCache, result: Any, what: str
) -> None:
    with pytest.raises(HastenError, match=what):
        keep(cache, result)
    assert not [each for each in cache.folder.rglob("*") if each.is_dir() and len(each.name) > 4]


def test_a_function_is_called_once_for_each_argument(cache: DatasetCache, tmp_path: Path) -> None:
    log = tmp_path / "log"

    @cached(cache=cache, key=lambda x, log: x)
    def double(x: int, log: Path) -> Any:
        with log.open("a") as file:
            file.write(f"{x}\n")
        return np.full(3, 2 * x)

    assert [double(x, log).tolist() for x in (1, 2, 1, 2)] == [[2] * 3, [4] * 3, [2] * 3, [4] * 3]
    assert log.read_text().split() == ["1", "2"]
    assert double.__name__ == "double"


@dataclasses.dataclass
class Table:
    factor: int

    def double(self, x: int) -> Any:
        return np.full(2, 2 * self.factor * x)


def test_a_method_has_its_object_in_its_key(cache: DatasetCache) -> None:
    class Kept(Table):
        double = cached(Table.double, cache=cache)  # type: ignore[assignment]

    assert Kept(1).double(3).tolist() == [6, 6]
    assert Kept(2).double(3).tolist() == [12, 12]
    assert len(list(cache.folder.rglob("manifest.json"))) == 2


def test_torch_that_the_builder_itself_imports_is_watched_too(tmp_path: Path) -> None:
    code = """
import sys, warnings
from hasten.data import DatasetCache
def draw(draws):
    import torch
    return (torch.rand(1) if draws else torch.ones(1)).numpy()
warnings.simplefilter("error" if sys.argv[2] == "0" else "ignore")
DatasetCache(sys.argv[1]).get_or_build(draw, int(sys.argv[2]))
"""
    for draws in ("0", "1"):
        ended = subprocess.run([sys.executable, "-c", code, str(tmp_path / draws), draws])
        assert ended.returncode == 0
        assert bool(list(tmp_path.glob(f"{draws}/data/*/*/manifest.json"))) == (draws == "0")


def test_a_builder_may_call_cached_functions_and_their_code_counts(cache: DatasetCache) -> None:
    def make(n: int) -> Any:
        @cached(cache=cache)
        def inner(x: int) -> Any:
            return np.full(2, x + n)

        @cached(cache=cache)
        def outer(x: int) -> Any:
            return inner(x) * 2

        return outer

    assert make(1)(5).tolist() == [12, 12]
    assert make(2)(5).tolist() == [14, 14]


def test_a_file_that_is_named_for_the_builder_counts(cache: DatasetCache, tmp_path: Path) -> None:
    file = tmp_path / "table.txt"

    def build() -> Any:
        return np.array([int(each) for each in file.read_text().split()])

    file.write_text("1 2")
    assert cached(build, cache=cache, files=[file])().tolist() == [1, 2]
    file.write_text("3 4")
    assert cached(build, cache=cache, files=[file])().tolist() == [3, 4]


def draw(source: str) -> Any:
    if source == "random":
        return random.random()
    if source == "numpy.random":
        return np.random.rand(2)
    return torch.rand(2) if source == "torch" else np.random.default_rng(1).random()


@pytest.mark.parametrize("source", ["random", "numpy.random", "torch"])
def test_what_draws_from_a_global_generator_is_not_kept_and_that_is_said_once(
    cache: DatasetCache, source: str
) -> None:
    with pytest.warns(RuntimeWarning, match=f"generator of {source}: .* not kept") as told:
        results = [cache.get_or_build(draw, source) for _ in range(3)]
    assert len(told) == 1
    assert not same(results[0], results[1])


def test_a_generator_of_ones_own_is_fine(cache: DatasetCache) -> None:
    assert cache.get_or_build(draw, "own") == cache.get_or_build(draw, "own")


def test_a_file_that_changes_while_it_is_read_is_not_kept(
    cache: DatasetCache, tmp_path: Path
) -> None:
    file = tmp_path / "growing.txt"
    file.write_text("1")

    def build(path: Path) -> Any:
        value = int(path.read_text())
        path.write_text(str(value + 1))
        return value

    with pytest.warns(RuntimeWarning, match="growing.txt changed while .* not kept"):
        assert [cache.get_or_build(build, file) for _ in range(2)] == [1, 2]


def test_an_error_of_the_builder_is_its_own_and_leaves_nothing(cache: DatasetCache) -> None:
    def build() -> Any:
        raise KeyError("mine")

    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            cache.get_or_build(build)
    assert not [each for each in cache.folder.rglob("*.lock") if each.name != ".lock"]


def test_a_builder_that_asks_for_itself_does_not_wait_for_itself(cache: DatasetCache) -> None:
    deep: list[int] = []

    def build(depth: list[int]) -> Any:
        return 7

    def again(drawn: set[str]) -> Any:
        deep.append(1)
        return cache.look_up(build, {}, again) if len(deep) < 3 else 7

    assert cache.look_up(build, {}, again) == 7


def test_importing_the_cache_imports_no_torch() -> None:
    code = "import sys, hasten.data; assert 'numpy' not in sys.modules; hasten.data.cached;"
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_strings_are_a_sequence() -> None:
    texts = Strings.of(["a", "bc", "", "ü"])
    assert list(texts) == ["a", "bc", "", "ü"] == texts.tolist()
    assert (texts[1], texts[-1], len(texts), "bc" in texts) == ("bc", "ü", 4, True)
    assert texts[1:3] == ["bc", ""]
    assert texts[::-1] == ["ü", "", "bc", "a"]
    assert texts[3:1] == []
    assert Strings.joined([texts[1:2], texts[2:], Strings.of([])]) == ["bc", "", "ü"]
    assert texts != ["a"]
    assert repr(texts) == "Strings(['a', 'bc', '', ...], 4 texts)"
    with pytest.raises(IndexError):
        texts[4]
