"""Slots hold a batch of their own; the same slots take every batch of the same signature."""

import numpy as np
import torch
from torch import Tensor, nn

from hasten.step.slots import Slots, cannot_hold, signature_of
from hasten.task.batch import RowsOf

CPU = torch.device("cpu")


def pair(rows: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [torch.randn(rows, 3).to(dtype), torch.arange(rows)]


def test_batches_of_one_form_have_one_signature() -> None:
    assert signature_of(pair(4)) == signature_of(pair(4))
    assert signature_of(tuple(pair(4))) == signature_of(tuple(pair(4)))
    nested = {"a": pair(4), "b": (torch.ones(4), 7)}
    assert signature_of(nested) == signature_of({"a": pair(4), "b": (torch.zeros(4), 7)})


def test_whatever_a_capture_bakes_in_is_in_the_signature() -> None:
    base = signature_of(pair(4))
    assert signature_of(pair(3)) != base
    assert signature_of(pair(4, torch.float64)) != base
    assert signature_of(tuple(pair(4))) != base
    assert signature_of(pair(4)[:1]) != base
    assert signature_of({"a": torch.ones(4), "n": 7}) != signature_of({"a": torch.ones(4), "n": 8})
    assert signature_of({"a": torch.ones(4)}) != signature_of({"b": torch.ones(4)})


def test_rows_of_resident_tensors_are_told_by_their_number_and_their_tensors() -> None:
    tensors = tuple(pair(9))
    one = RowsOf(tensors, torch.tensor([1, 2, 3]))
    assert signature_of(one) == signature_of(RowsOf(tensors, torch.tensor([4, 5, 6])))
    assert signature_of(one) != signature_of(RowsOf(tensors, torch.tensor([4, 5])))
    assert signature_of(one) != signature_of(RowsOf(tuple(pair(9)), torch.tensor([1, 2, 3])))


def test_slots_stay_where_they_are_and_take_the_numbers_of_a_batch() -> None:
    first, second = pair(4), pair(4)
    slots = Slots(first, CPU)
    places = [each.data_ptr() for each in slots.batch]
    assert all(torch.equal(a, b) for a, b in zip(slots.batch, first, strict=True))
    assert not {each.data_ptr() for each in first} & set(places)
    assert slots.take(second)
    assert [each.data_ptr() for each in slots.batch] == places
    assert all(torch.equal(a, b) for a, b in zip(slots.batch, second, strict=True))


def test_slots_of_a_nested_batch_keep_its_form() -> None:
    batch = {"a": (torch.randn(2, 2), 3), "b": torch.arange(2)}
    slots = Slots(batch, CPU)
    assert slots.batch["a"][1] == 3
    assert slots.take({"a": (torch.ones(2, 2), 3), "b": torch.tensor([5, 6])})
    assert slots.batch["a"][0].tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert slots.batch["b"].tolist() == [5, 6]


def test_slots_of_resident_rows_take_row_numbers_and_leave_the_tensors() -> None:
    tensors = tuple(pair(9))
    rows = torch.tensor([1, 2, 3])
    slots = Slots(RowsOf(tensors, rows), CPU)
    assert slots.batch.tensors is tensors
    assert slots.take(RowsOf(tensors, torch.tensor([8, 0, 4])))
    assert rows.tolist() == [1, 2, 3]
    assert slots.batch[1].tolist() == [8, 0, 4]


def test_a_batch_that_does_not_fit_is_not_taken() -> None:
    tensors = tuple(pair(9))
    rows = RowsOf(tensors, torch.tensor([1, 2, 3]))
    nested = {"a": torch.ones(4), "n": 7}
    for first, others in (
        (pair(4), [pair(3), pair(4, torch.float64), tuple(pair(4)), pair(4)[:1], [*pair(4), 1]]),
        (rows, [RowsOf(tensors, torch.tensor([1])), RowsOf(tuple(pair(9)), rows.rows), pair(3)]),
        (nested, [{"a": torch.ones(4), "n": 8}, {"b": torch.ones(4), "n": 7}, [torch.ones(4)]]),
    ):
        slots = Slots(first, CPU)
        assert slots.take(first)
        assert slots.fit(first)
        assert not any(slots.take(other) for other in others)
        assert not any(slots.fit(other) for other in others)


class Special(Tensor):
    pass


def test_a_batch_that_is_taken_fits_and_the_other_way_round() -> None:
    tensors = tuple(pair(9))
    rows = RowsOf(tensors, torch.tensor([1, 2, 3]))
    trained = torch.randn(4, 3, requires_grad=True)
    for first, others in (
        (pair(4), [[torch.randn(4, 3).as_subclass(Special), torch.arange(4)]]),
        (pair(4), [[nn.Parameter(torch.randn(4, 3)), torch.arange(4)]]),
        (pair(4), [[trained, torch.arange(4)]]),
        ({"a": torch.ones(4)}, [{"a": torch.ones(4).as_subclass(Special)}]),
        (rows, [RowsOf(tensors, rows.rows.int()), RowsOf(tensors, rows.rows.as_subclass(Special))]),
        ((torch.ones(2), 1), [(torch.ones(2), 1.0), (torch.ones(2), True)]),
    ):
        slots = Slots(first, CPU)
        assert slots.fit(first)
        for other in others:
            assert not slots.fit(other)
            assert not slots.take(other)


def test_what_no_slot_can_hold_is_named() -> None:
    usual = {"a": pair(4), "b": ("name", 7, None, 0.5, b"x", torch.float32, CPU)}
    assert cannot_hold(usual) is None
    assert cannot_hold(RowsOf(tuple(pair(9)), torch.tensor([1]))) is None
    for odd, words in (
        (np.zeros(3), "objects of numpy.ndarray"),
        (object(), "objects of builtins.object"),
        (torch.ones(2).as_subclass(Special), "Special"),
        (torch.ones(2, requires_grad=True), "tensors that require gradients"),
        (torch.eye(2).to_sparse(), "sparse tensors"),
    ):
        assert words in str(cannot_hold([torch.ones(2), odd]))
        assert str(cannot_hold({"a": odd})).endswith("which a graph cannot take")


def test_usual_batches_have_a_hash() -> None:
    for batch in (pair(4), tuple(pair(4)), {"a": pair(4), "names": ["x", "y"]}, torch.ones(2)):
        assert hash(signature_of(batch)) == hash(signature_of(batch))
