"""What an epoch will ask for, told before its time, and nothing drawn for it."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Sampler, TensorDataset, WeightedRandomSampler

from hasten.data.ahead import foresight
from hasten.data.ahead.foresight import Foresight
from hasten.data.loaders.order import Order
from torch_state import random_settings

ROWS = 22


class DrawsOn(Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        for _ in range(ROWS):
            yield int(torch.randint(ROWS, ()))


LOADERS: dict[str, dict[str, Any]] = {
    "shuffled": {"shuffle": True},
    "weighted": {"sampler": WeightedRandomSampler(torch.arange(1.0, ROWS + 1), 30)},
    "drawn as it goes": {"sampler": DrawsOn()},
    "workers": {"shuffle": True, "num_workers": 2},
}


@pytest.mark.parametrize("options", LOADERS.values(), ids=list(LOADERS))
def test_an_epoch_is_foreseen_from_where_the_generators_stand(options: dict[str, Any]) -> None:
    order = Order(DataLoader(TensorDataset(torch.arange(ROWS)), batch_size=4, **options))
    torch.manual_seed(3)
    before = random_settings()
    told = Foresight(order)
    foreseen = [next(told)]
    torch.rand(5)  # what others draw meanwhile is nothing to it, nor what it draws to them
    drawn = random_settings()
    foreseen += told
    assert random_settings() == drawn
    torch.manual_seed(3)
    assert random_settings() == before
    assert foreseen == list(order)


def test_generators_are_put_back_only_for_what_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    order = Order(DataLoader(TensorDataset(torch.arange(ROWS)), batch_size=4, shuffle=True))
    told = Foresight(order)
    next(told)
    monkeypatch.setattr(foresight, "restore_host_random_state", None)
    assert len(list(told)) == 5
