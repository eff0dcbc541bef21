"""What could be random so seldom that only reading its code shows it: each is refused."""

import functools
import itertools
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng as under_another_name
from torch.utils.data import DataLoader, Dataset

from hasten.data.freezing.freeze import CannotFreeze, freeze
from hasten.data.freezing.owned import state_of

MiB = 2**20


class Numbers(Dataset[float]):
    """The numbers from 0 on, as ``change`` leaves them."""

    def __init__(self, change: Any) -> None:
        self.change = change

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> float:
        return float(self.change(index))


class Counts:
    asked = 0

    def count(self) -> bool:
        type(self).asked += 1
        return type(self).asked > 10**6


def count_by_a_second_name(index: int) -> bool:
    counter = Counts
    counter.asked += 1
    return index + counter.asked > 10**6


def draw_seldom(index: int) -> bool:
    return bool(under_another_name().gamma(1.0) > 10**6)


class Held(Dataset[float]):
    """Looks into something for what it calls."""

    def __init__(self, held: Any, key: Any) -> None:
        self.held, self.key = held, key

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> float:
        return float(self.held[self.key](index))


BUFFER = np.zeros(1)


def write_to_a_buffer(index: int) -> Any:
    return np.sort(np.add([float(index)], 1.0, out=BUFFER))


def in_an_array(value: Any) -> Any:
    array = np.empty(1, dtype=object)
    array[0] = value
    return array


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a generator by another name": (lambda: Numbers(draw_seldom), "numpy.random draws random"),
    "a generator in a partial": (
        lambda: Numbers(functools.partial(under_another_name)),
        "numpy.random draws random",
    ),
    "a draw of its class": (lambda: Numbers(np.random.Generator.random), "random may draw"),
    "a draw by its name": (
        lambda: Held([operator.methodcaller("gamma"), under_another_name], 1),
        "numpy.random draws random",
    ),
    "what comes next": (
        lambda: Numbers(itertools.cycle([0.0, 0.0]).__next__),
        "holds an iterator, a cycle",
    ),
    "a counter of a class": (lambda: Numbers(lambda index: Counts().count()), "type(self).asked"),
    "a counter by a second name": (lambda: Numbers(count_by_a_second_name), "counter.asked"),
    "a buffer outside": (lambda: Numbers(write_to_a_buffer), "writes to BUFFER"),
    "in an array": (lambda: Held(in_an_array(draw_seldom), 0), "numpy.random draws random"),
    "in a view of a dictionary": (
        lambda: Held(types.MappingProxyType({"a": draw_seldom}), "a"),
        "numpy.random draws random",
    ),
}


@pytest.mark.parametrize(("make", "reason"), REFUSED.values(), ids=list(REFUSED))
def test_what_is_hardly_ever_random_is_refused_too(make: Callable[[], Any], reason: str) -> None:
    with pytest.raises(CannotFreeze) as refusal:
        freeze(DataLoader(make()), most_bytes=MiB)
    assert reason in refusal.value.reason


def test_what_an_item_makes_for_itself_may_be_written_to() -> None:
    def change(index: int) -> float:
        made = np.full((2, 2), index)
        made.reshape(-1)[0] = 7
        same = made
        same[1] = 3
        other = np.concatenate([np.append(np.sort(made), 1), np.where(made > 1, 1, 2).ravel()])
        return float(other.sum())

    assert len(freeze(DataLoader(Numbers(change)), most_bytes=MiB).columns[0]) == 4


def test_an_array_of_objects_is_another_one_when_an_object_is() -> None:
    array = in_an_array([1, 2])
    before = state_of(array)
    array[0].append(3)
    assert state_of(array) != before
