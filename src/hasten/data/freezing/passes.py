"""Reads all items of a dataset twice and compares; runs in a forked process of its own."""

import os
import pickle
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.data import default_collate

from hasten.data.freezing.bodies import Outside
from hasten.data.freezing.frozen import same_row
from hasten.data.freezing.owned import state_of
from hasten.data.freezing.room import Layout, Room
from hasten.task.seed import host_random_state, same_host_random_state, seed_everything

TELL_EVERY_S = 0.2
ITEM_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What an item may raise; anything else ends the process."""


class Refused(Exception):  # noqa: N818
    """What the items are that cannot be kept."""


def read_twice(
    dataset: Any, outside: Sequence[Outside], room: Room, send: Callable[[Any], None]
) -> None:
    """Sends how many items were read, and at last the layout of the columns in ``room``; or, in
    words, why they cannot be kept."""
    torch.set_num_threads(1)  # threads do not survive a fork
    try:
        send(_Passes(dataset, outside, room, send).read())
    except Refused as refusal:
        send(str(refusal))
    except (pickle.PicklingError, AttributeError) as error:
        send(f"the form of its batches cannot be sent to another process: {error}")


class _Passes:
    def __init__(
        self, dataset: Any, outside: Sequence[Outside], room: Room, send: Callable[[Any], None]
    ) -> None:
        self._dataset, self._outside = dataset, outside
        self._room, self._send = room, send
        self._rows = len(dataset)
        self._layout: Layout | None = None
        self._columns: tuple[Tensor, ...]
        self._absent: Tensor
        self._kinds: tuple[type, ...] = ()
        self._raised: dict[int, str] = {}
        self._done, self._told_at = 0, time.monotonic()

    def read(self) -> Layout:
        self._watch(range(self._rows), self._keep)
        if self._layout is None:
            raise Refused(f"no item of it can be read: {next(iter(self._raised.values()))}")
        self._absent[list(self._raised)] = True
        again = random.Random(self._rows).sample(range(self._rows), self._rows)
        self._watch(again, self._compare)
        return self._layout

    def _watch(self, rows: Iterable[int], work: Callable[[int], None]) -> None:
        """One pass, with seeds that nobody knows, and an eye on what moves."""
        seed_everything(int.from_bytes(os.urandom(7), "little"))
        generators, state = host_random_state(), self._state()
        for row in rows:
            work(row)
            self._tell()
        if not same_host_random_state(generators):
            raise Refused("reading its items draws random numbers, or seeds what others draw")
        if self._state() != state:
            raise Refused(f"reading its items changes {type(self._dataset).__name__} itself")

    def _state(self) -> str:
        return state_of(self._dataset, *(each.value for each in self._outside))

    def _tell(self) -> None:
        self._done += 1
        if time.monotonic() - self._told_at > TELL_EVERY_S:
            self._told_at = time.monotonic()
            self._send(self._done)

    def _leaves(self, row: int) -> tuple[list[Tensor], Any, tuple[type, ...]] | str:
        """Of a batch of this item alone, as the DataLoader makes it; or what it raised."""
        try:
            item = self._dataset[row]
            batch = default_collate([item])
        except ITEM_ERRORS as error:
            if "CUDA" in str(error):
                raise Refused(f"its items use CUDA: {error}") from None
            return f"{type(error).__name__}: {error}"
        leaves, form = pytree.tree_flatten(batch)
        for leaf in leaves:
            _refuse_odd(leaf, row)
        return leaves, form, tuple(map(type, pytree.tree_leaves(item)))

    def _keep(self, row: int) -> None:
        found = self._leaves(row)
        if isinstance(found, str):
            self._raised[row] = found
            return
        leaves, form, kinds = found
        layout = Layout(
            self._rows,
            tuple(tuple(leaf.shape[1:]) for leaf in leaves),
            tuple(leaf.dtype for leaf in leaves),
            pytree.tree_unflatten(range(len(leaves)), form),
        )
        if self._layout is None:
            self._layout = self._begin(layout, kinds)
        if (layout.shapes, layout.dtypes) != (self._layout.shapes, self._layout.dtypes):
            raise Refused(f"item {row} has another shape or type than those before it")
        if kinds != self._kinds or not _alike(layout.sample, self._layout.sample):
            raise Refused(f"item {row} is another kind of thing than those before it")
        for leaf, column in zip(leaves, self._columns, strict=True):
            column[row] = leaf[0]

    def _begin(self, layout: Layout, kinds: tuple[type, ...]) -> Layout:
        if not layout.shapes:
            raise Refused("its items hold nothing")
        if layout.nbytes > self._room.most_bytes:
            raise Refused(
                f"its {self._rows:,} items come to {layout.nbytes / 2**20:,.1f} MiB, more than the"
                f" {self._room.most_bytes / 2**20:,.1f} MiB that are allowed"
            )
        self._kinds = kinds
        self._room.grow(layout)
        self._columns, self._absent = self._room.columns(layout)
        return layout

    def _compare(self, row: int) -> None:
        found = self._leaves(row)
        if isinstance(found, str) or row in self._raised:
            if isinstance(found, str) and row in self._raised:
                return
            raise Refused(f"item {row} could be read once of two times")
        if not same_row(found[0], self._columns, row):
            raise Refused(f"item {row} is another one when it is read again")


def _alike(one: Any, other: Any) -> bool:
    """Containers of the same kinds, with the same keys in the same order."""
    same: bool = pytree.tree_structure(one) == pytree.tree_structure(other)
    return same


def _refuse_odd(leaf: Any, row: int) -> None:
    if type(leaf) is not Tensor:
        raise Refused(f"item {row} holds a {type(leaf).__name__}, which is no tensor or number")
    if leaf.device.type != "cpu":
        raise Refused(f"item {row} lies on {leaf.device}")
    if leaf.layout != torch.strided or leaf.requires_grad or leaf.is_quantized:
        raise Refused(f"item {row} is not a plain tensor without gradients")
