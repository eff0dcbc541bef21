"""Trees of values come back as they were, whatever stands in them; nothing else is made."""

import collections
import contextlib
import math
import struct
from collections import Counter, OrderedDict, deque
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.checkpoint.codec import DEEPEST, decode, encode
from hasten.checkpoint.tensor_file import DTYPES, read_tensors, write_tensors
from hasten.errors import HastenError


def round_trip(tree: Any) -> Any:
    """Through JSON text, as it is stored."""
    skeleton, tensors = encode(tree, "it")
    return decode(msgspec.json.decode(msgspec.json.encode(skeleton)), tensors)


def same(a: Any, b: Any) -> bool:
    """Types, order, bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and _bits(a) == _bits(b)
    if isinstance(a, np.ndarray | np.generic):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, set | frozenset):
        return len(a) == len(b) and all(any(same(x, y) for y in b) for x in a)
    if isinstance(a, deque) and a.maxlen != b.maxlen:
        return False
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, list | tuple | deque):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def _bits(tensor: torch.Tensor) -> list[int]:
    plain = tensor.resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8).tolist()


ANY_TEXT = st.text(st.characters(exclude_categories=()))
ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | ANY_TEXT
    | st.sampled_from(["$tensor", "$dict", "$", "$int", '{"$int": 1}'])
    | st.binary()
    | st.floats(width=32).map(np.float32)
    | st.integers(-5, 5).map(np.int64)
    | ANY_TEXT.map(np.str_)
    | st.binary().map(np.bytes_)
    | st.sampled_from([torch.float32, torch.int8, torch.device("cpu"), torch.device("cuda:1")])
    | st.lists(st.integers(0, 9)).map(torch.Size)
)
KEYS = st.recursive(
    ATOMS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner), max_leaves=4
)
TENSORS = st.lists(st.floats(width=32)).map(torch.tensor)
ARRAYS = st.lists(st.floats()).map(np.array)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    mappings = st.dictionaries(KEYS, inner)
    return (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.sets(KEYS)
        | st.frozensets(KEYS)
        | st.builds(deque, st.lists(inner), st.none() | st.integers(0, 9))
        | mappings
        | mappings.map(OrderedDict)
        | mappings.map(Counter)
        | st.dictionaries(ANY_TEXT, inner)
        | st.dictionaries(st.sampled_from(["$tensor", "$dict", "$set", "a"]), inner)
    )


TREES = st.recursive(ATOMS | TENSORS | ARRAYS, _containers, max_leaves=20)


@given(TREES)
@settings(max_examples=300, deadline=None)
def test_any_tree_comes_back_as_it_was(tree: Any) -> None:
    assert same(round_trip(tree), tree)


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        -math.nan,
        struct.unpack("d", struct.pack("Q", 0x7FF0000000000123))[0],
        math.inf,
        -math.inf,
        -0.0,
        5e-324,
        1e308,
        2**53 + 1,
        -(10**5000),
        True,
        {"$tensor": "it"},
        {"$dict": []},
        {"$tensor": 1, "more": 2},
        {1: "a", "1": "b", (1, None): "c", frozenset({2}): "d", 2.5: "e", None: "f", b"x": "g"},
        "\ud83d\ude00",
        "\ud800",
        {"\ud800": 1},
        np.zeros((0, 3)),
        np.zeros((2, 3), order="F"),
        np.arange(6, dtype=">i4").reshape(2, 3)[:, ::2],
        np.array(5),
        np.array(["a", "bcd"]),
        np.array([1 + 2j]),
        np.array(["2020-01-01"], "M8[ns]"),
        np.datetime64("2020-01-01", "25s"),
        np.longdouble(0.1),
        np.bool_(True),
        np.str_("a\0"),
        np.random.RandomState(3).get_state(),
        torch.get_rng_state(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_at_the_edges_come_back(value: Any) -> None:
    assert same(round_trip(value), value)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_every_storable_type_come_back_through_a_file(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    values = (torch.arange(64, dtype=torch.uint8) % 2).view(dtype)
    tree = {"full": values, "empty": values[:0], "folded": values.reshape(2, -1)}
    if dtype != torch.float4_e2m1fn_x2:  # it has pairs, and no single ones
        tree |= {"one": values[0], "turned": values.reshape(2, -1).t(), "apart": values[::2]}
    skeleton, tensors = encode(tree, "it")
    write_tensors(tmp_path / "file", tensors)
    assert same(decode(skeleton, read_tensors(tmp_path / "file")), tree)


def test_channels_last_conjugates_and_negated_views_keep_their_values(tmp_path: Path) -> None:
    tree = {
        "channels": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "conjugate": torch.randn(3, dtype=torch.complex64).conj(),
        "negated": torch.randn(3, dtype=torch.complex64).conj().imag,
        "expanded": torch.randn(3, 1).expand(3, 4),
    }
    skeleton, tensors = encode(tree, "it")
    write_tensors(tmp_path / "file", tensors)
    assert same(decode(skeleton, read_tensors(tmp_path / "file")), tree)


def test_a_tensor_that_occurs_twice_is_stored_once_and_comes_back_as_one() -> None:
    tensor = torch.ones(3)
    skeleton, tensors = encode([tensor, {"again": tensor}, tensor.clone()], "it")
    assert len(tensors) == 2
    first, again, other = decode(skeleton, tensors)
    assert first is again["again"]
    assert first is not other


def test_tensors_that_need_gradients_come_back_detached() -> None:
    tensor = (torch.ones(3, requires_grad=True) * 2).sum()
    assert not round_trip(tensor).requires_grad


def test_names_of_tensors_say_where_they_stood() -> None:
    _, tensors = encode({"state": {3: {"exp_avg": torch.ones(1)}}}, "optimizer 0")
    assert list(tensors) == ["optimizer 0: state[3]['exp_avg']"]


def test_keys_that_are_shown_alike_get_names_apart() -> None:
    keys = ["a" * 100 + end for end in "xyz"]
    skeleton, tensors = encode({"s": {key: torch.ones(1) for key in keys}}, "it")
    assert len(tensors) == 3
    assert list(decode(skeleton, tensors)["s"]) == keys


class Pair(NamedTuple):
    a: int
    b: int


class Own:
    def __repr__(self) -> str:
        raise AssertionError("never asked")

    __str__ = __repr__


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (print, "builtins.builtin_function_or_method"),
        (lambda: 0, "function"),
        (Own(), "test_codec.Own"),
        (Own, "builtins.type"),
        (Pair(1, 2), "test_codec.Pair"),
        (collections.defaultdict(list), "collections.defaultdict"),
        (torch.nn.Parameter(torch.ones(1)), "Parameter"),
        (torch.ones(2, 2).to_sparse(), "sparse_coo"),
        (torch.ones(2, 2).to_sparse_csr(), "sparse_csr"),
        (torch.ones(2, device="meta"), "meta"),
        (torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]), "nested"),
        (torch.ones(2, dtype=torch.complex128), "torch.complex128"),
        (torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "torch.qint8"),
        (np.array([object()]), "|O"),
        (np.zeros(2, [("a", "f4")]), "|V4"),
        (np.ma.array([1]), "MaskedArray"),
        (range(3), "builtins.range"),
        (Path("x"), "PosixPath"),
    ],
)
def test_what_cannot_be_held_is_named_with_its_place(value: Any, named: str) -> None:
    for tree in ({"state": {3: {"foo": value}}}, {"state": {3: {"$foo": 1, "foo": value}}}):
        with pytest.raises(HastenError) as caught:
            encode(tree, "optimizer 0")
        assert caught.value.what.startswith("optimizer 0: state[3]['foo'] is a")
        assert named in caught.value.what
        assert "state_dict()" in caught.value.fix


def test_a_key_that_cannot_be_held_is_named() -> None:
    with pytest.raises(HastenError, match=r"it: state \(a key\) is a test_codec.Own"):
        encode({"state": {Own(): 1}}, "it")


def test_control_characters_of_keys_do_not_reach_the_message() -> None:
    with pytest.raises(HastenError) as caught:
        encode({"\x1b[2J\n": print}, "it")
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_tree_that_holds_itself_is_refused() -> None:
    tree: list[Any] = []
    tree.append(tree)
    with pytest.raises(HastenError, match="or in itself"):
        encode(tree, "it")


def test_the_deepest_tree_comes_back() -> None:
    tree: Any = 1
    for _ in range(DEEPEST):
        tree = {2: tree}
    assert same(round_trip(tree), tree)


BROKEN = [
    {"$what": 1},
    {"$tensor": "nowhere"},
    {"$tensor": ["a"]},
    {"$tensor": "a", "more": 1},
    {"$int": 5},
    {"$int": "x"},
    {"$float": "00"},
    {"$float": None},
    {"$str": "ff"},
    {"$bytes": "é"},
    {"$bytes": "a"},
    {"$size": ["a"]},
    {"$size": 3},
    {"$dtype": "nn"},
    {"$dtype": "load"},
    {"$device": 0},
    {"$device": "nowhere:0"},
    {"$set": [[1]]},
    {"$set": 5},
    {"$dict": [[1]]},
    {"$dict": [[1, 2], [1, 3]]},
    {"$dict": [[[1], 2]]},
    {"$dict": {"a": 1}},
    {"$counter": "ab"},
    {"$deque": [-1, []]},
    {"$deque": ["x", []]},
    {"$deque": []},
    {"$array": ["|O", [1], "a"]},
    {"$array": ["<f8,<f8", [1], "a"]},
    {"$array": ["<f8", [-1], "a"]},
    {"$array": ["<f8", [1 << 62], "a"]},
    {"$array": ["<f8", ["1"], "a"]},
    {"$array": ["<f8", [1], "floats"]},
    {"$array": ["<f8", [2], "a"]},
    {"$numpy": ["|O8", "00" * 8]},
    {"$numpy": ["<f8", "00"]},
    {"$numpy_str": 5},
    {"$numpy_str": {"a": 1}},
    {"$numpy_bytes": 5},
    {1: 2},
    {"a": ...},
]


@pytest.mark.parametrize("skeleton", BROKEN, ids=repr)
def test_a_broken_skeleton_is_refused(skeleton: Any) -> None:
    tensors = {"a": torch.zeros(8, dtype=torch.uint8), "floats": torch.zeros(8)}
    with pytest.raises(HastenError, match="The stored state is broken"):
        decode([skeleton], tensors)


def test_a_skeleton_without_end_is_refused() -> None:
    skeleton: Any = []
    for _ in range(100_000):
        skeleton = [skeleton]
    with pytest.raises(HastenError, match="nested"):
        decode(skeleton, {})
    del skeleton


TAGS = ["$int", "$float", "$str", "$bytes", "$size", "$dtype", "$device", "$numpy", "$numpy_str"]
TAGS += ["$tuple", "$set", "$dict", "$ordered", "$counter", "$deque", "$tensor", "$array", "a"]
NODES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["a"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(TAGS), inner, max_size=2),
)


@given(NODES)
@settings(max_examples=300, deadline=None)
def test_no_skeleton_raises_anything_else(skeleton: Any) -> None:
    with contextlib.suppress(HastenError):
        decode(skeleton, {"a": torch.zeros(8, dtype=torch.uint8)})
