"""Batches as pytrees: counting, cutting, moving."""

from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils import _pytree as pytree

from hasten.errors import HastenError
from hasten.task.batch import (
    RowsOf,
    clone,
    detach,
    even_pieces,
    move,
    ragged_halves,
    rows_in,
    split,
    tensors_of,
)


class Pair(NamedTuple):
    left: Tensor
    right: Tensor


def nested(rows: int) -> dict[str, Any]:
    """Tensors of all depths, a scalar tensor and things that are no tensors."""
    return {
        "tokens": torch.arange(rows),
        "pairs": [Pair(torch.arange(2.0 * rows).reshape(rows, 2), torch.ones(rows, 1, 3))],
        "temperature": torch.tensor(0.5),
        "name": "batch",
        "nothing": None,
    }


def trees(rows: int) -> st.SearchStrategy[Any]:
    tensors = st.lists(st.integers(0, 3), max_size=2).map(
        lambda shape: torch.arange(rows * torch.Size(shape).numel()).reshape(rows, *shape)
    )
    leaves = tensors | st.just(torch.tensor(7)) | st.none() | st.text(max_size=2)
    inner = st.recursive(
        leaves,
        lambda below: (
            st.lists(below, max_size=3)
            | st.tuples(below, below)
            | st.dictionaries(st.text(max_size=2), below, max_size=3)
        ),
        max_leaves=6,
    )
    return st.tuples(tensors, inner)


@st.composite
def batches_and_sizes(draw: st.DrawFn) -> tuple[Any, list[int]]:
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    return draw(trees(sum(sizes))), sizes


@settings(deadline=None)
@given(batches_and_sizes())
def test_the_pieces_of_a_batch_put_together_are_the_batch(drawn: tuple[Any, list[int]]) -> None:
    batch, sizes = drawn
    pieces = split(batch, sizes)
    assert [rows_in(piece) for piece in pieces] == sizes
    whole, form = pytree.tree_flatten(batch)
    parts = [pytree.tree_flatten(piece) for piece in pieces]
    assert all(other_form == form for _, other_form in parts)
    for leaf, *cuts in zip(whole, *(leaves for leaves, _ in parts), strict=True):
        if isinstance(leaf, Tensor) and leaf.dim():
            assert torch.equal(torch.cat(cuts), leaf)
        else:
            assert all(cut is leaf for cut in cuts)


@settings(deadline=None)
@given(rows=st.integers(0, 200), multiple=st.integers(1, 40))
def test_ragged_halves_are_unequal_multiples_wherever_there_are_any(
    rows: int, multiple: int
) -> None:
    possible = [
        first for first in range(multiple, rows, multiple) if (rows - first) % multiple == 0
    ]
    unequal = [first for first in possible if rows - first != first]
    sizes = ragged_halves(rows, multiple)
    if not unequal:
        assert sizes is None
        return
    assert sizes is not None
    first, second = sizes
    assert first + second == rows
    assert first in unequal


def test_both_halves_of_a_usual_batch_are_large() -> None:
    assert ragged_halves(64, 1) == [40, 24]
    assert ragged_halves(64, 2) == [40, 24]


def test_rows_are_the_first_dimension_of_a_nested_batch() -> None:
    assert rows_in(nested(5)) == 5
    assert rows_in(torch.ones(3)) == 3


@pytest.mark.parametrize(
    ("batch", "found"),
    [
        ((torch.ones(4, 2), torch.ones(5)), "first dimensions [4, 5]"),
        ({"scalar": torch.tensor(1.0)}, "no tensor with a dimension"),
        ([1, 2, "three"], "no tensor with a dimension"),
        ((), "no tensor with a dimension"),
    ],
)
def test_rows_that_cannot_be_counted_are_refused(batch: Any, found: str) -> None:
    with pytest.raises(HastenError) as refusal:
        rows_in(batch)
    assert str(refusal.value) == (
        f"The rows of a batch cannot be counted: it has {found}. "
        "Let every tensor of a batch hold its rows along the first dimension."
    )


def test_moving_keeps_the_form_of_a_batch_and_moves_every_tensor() -> None:
    moved = move(nested(4), torch.device("meta"))
    assert pytree.tree_structure(moved) == pytree.tree_structure(nested(4))
    assert [each.device.type for each in tensors_of(moved)] == ["meta"] * 4
    assert moved["name"] == "batch"
    assert isinstance(moved["pairs"][0], Pair)


def test_detaching_cuts_the_gradients_of_every_tensor() -> None:
    weight = torch.ones(2, requires_grad=True)
    state = {"hidden": (weight * 2, [weight * 3]), "age": 4}
    cut = detach(state)
    assert not any(each.requires_grad for each in tensors_of(cut))
    assert torch.equal(cut["hidden"][1][0], torch.tensor([3.0, 3.0]))
    assert cut["age"] == 4


def test_only_tensors_are_tensors_of_a_batch() -> None:
    found = tensors_of(nested(2))
    assert [tuple(each.shape) for each in found] == [(2,), (2, 2), (2, 1, 3), ()]


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(1, 20), st.integers(1, 4))
def test_even_pieces_are_as_equal_as_they_can_be(rows: int, pieces: int, multiple: int) -> None:
    sizes = even_pieces(rows, pieces, multiple)
    assert sum(sizes) == rows
    assert all(size > 0 for size in sizes)
    assert sizes == sorted(sizes, reverse=True)
    if rows % multiple:
        assert sizes == [rows]
        return
    assert len(sizes) == min(pieces, rows // multiple)
    assert all(size % multiple == 0 for size in sizes)
    assert sizes[0] - sizes[-1] in (0, multiple)


def test_an_empty_batch_is_one_piece() -> None:
    assert even_pieces(0, 3, 1) == [0]


@settings(deadline=None)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=12), st.data())
def test_rows_of_tensors_are_a_batch_like_the_list_of_them(
    numbers: list[int], data: st.DataObject
) -> None:
    tensors = (torch.randn(9, 2), torch.arange(9), torch.arange(9) % 2 == 0)
    rows = torch.tensor(numbers)
    lazy, batch = RowsOf(tensors, rows), [tensor[rows] for tensor in tensors]
    assert len(lazy) == len(batch) == 3
    assert rows_in(lazy) == rows_in(batch) == len(numbers)
    index = data.draw(st.integers(-3, 2))
    assert torch.equal(lazy[index], batch[index])
    assert same(lazy[1:], batch[1:])
    assert same(list(lazy), batch)
    assert same(tensors_of(lazy), batch)
    moved = move(lazy, torch.device("cpu"))
    assert type(moved) is list
    assert same(moved, batch)
    size = data.draw(st.integers(0, len(numbers)))
    sizes = [size, len(numbers) - size]
    for one, other in zip(split(lazy, sizes), split(batch, sizes), strict=True):
        assert same(one, other)


def same(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(map(torch.equal, one, other))


def test_rows_are_gathered_anew_for_whoever_looks() -> None:
    lazy = RowsOf((torch.zeros(3),), torch.tensor([0, 1]))
    lazy[0].add_(1)
    assert lazy[0].tolist() == [0.0, 0.0]


def test_a_copy_of_a_state_is_its_own() -> None:
    state = {"h": torch.zeros(2), "n": 3}
    copied = clone(state)
    copied["h"].add_(1)
    assert state["h"].tolist() == [0.0, 0.0]
    assert copied["n"] == 3
