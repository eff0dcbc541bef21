"""Losses that are kept stay what they were."""

import pytest
import torch

from hasten.step import tape
from hasten.step.tape import Tape


def test_each_loss_has_a_place_of_its_own() -> None:
    losses = Tape(torch.device("cpu"), torch.float32)
    kept = []
    for number in range(5):
        place = losses.next()
        assert place is not None
        losses.write(torch.tensor(float(number)))
        kept.append(place)
    assert [float(each) for each in kept] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert all(each.shape == () for each in kept)


def test_a_full_tape_says_so_and_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape, "LENGTH", 5)
    monkeypatch.setattr(tape, "AT_ONCE", 2)
    losses = Tape(torch.device("cpu"), torch.float64)
    places = [losses.next() for _ in range(5)]
    assert all(each is not None and each.dtype == torch.float64 for each in places)
    assert not losses.is_full
    assert losses.next() is None
    assert losses.is_full
