"""The search for workers and threads: within its allowance, in its time, and without a trace."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from hasten.data.choosing import rating, turns
from hasten.data.choosing.allowance import Allowance
from hasten.data.choosing.candidates import Candidate, choose
from hasten.data.choosing.rating import rate_loading
from hasten.data.choosing.turns import Settings, Turn
from hasten.records.loading import LoaderRating, ThreadSettings, WorkerSettings
from hasten.records.record import from_json, to_json
from torch_state import random_settings

GIB = 1 << 30
PLENTY = Allowance(cores=2, memory_bytes=64 * GIB, shared_bytes=64 * GIB)


class Items(Dataset[Any]):
    """Counts in a way that no item shows."""

    def __init__(self, row_bytes: int = 12, sleep_s: float = 0.0) -> None:
        self.row_bytes, self.sleep_s = row_bytes, sleep_s
        self.read: list[int] = []

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Tensor:
        self.read.append(index)
        time.sleep(self.sleep_s)
        return torch.full((self.row_bytes,), index % 100, dtype=torch.uint8)


def loader_of(dataset: Dataset[Any], **options: Any) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=4, shuffle=True, **options)


def test_every_setting_is_measured_and_nothing_is_changed() -> None:
    dataset = Items(sleep_s=0.01)
    generator = torch.Generator().manual_seed(4)
    loader = loader_of(dataset, generator=generator)
    before, own = random_settings(), generator.get_state()
    found = rate_loading(loader, seconds=6, allowance=PLENTY)
    assert [each.how for each in found.rates][:2] == [
        "no workers",
        "1 worker, 2 batches ahead each",
    ]
    assert "2 workers, 2 batches ahead each" in [each.how for each in found.rates]
    assert found.rates[0].mode == "own"
    assert found.rows_per_s in [each.rows_per_s for each in found.rates]
    assert all(each.turns for each in found.rates)
    assert [each.mode for each in found.refused] == ["threads"]
    assert dataset.read == []
    assert random_settings() == before
    assert torch.equal(generator.get_state(), own)
    assert loader._iterator is None
    assert from_json(to_json(found), LoaderRating, where="here") == found


@pytest.fixture
def settings_seen(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """What takes a turn, each of which is reckoned instead of measured."""
    seen: list[Settings] = []

    def reckon(loader: Any, settings: Settings, indices: Any, **times: float) -> Turn:
        seen.append(settings)
        makers = settings.workers if isinstance(settings, WorkerSettings) else settings.threads
        rate = 100.0 * (makers + 1)
        return Turn(int(rate), 10, 1.0, 10, 0.01, GIB // 64, GIB // 8)

    monkeypatch.setattr(rating, "take_turn", reckon)
    return seen


def most_in(seen: list[Settings]) -> int:
    return max(each.workers for each in seen if isinstance(each, WorkerSettings))


@pytest.mark.parametrize(
    ("allowance", "most", "reason"),
    [
        (Allowance(16, 64 * GIB, 64 * GIB), 16, ""),
        (Allowance(3.5, 64 * GIB, 64 * GIB), 3, ""),
        (Allowance(0.5, 64 * GIB, 64 * GIB), 1, ""),
        (Allowance(16, GIB, 64 * GIB), 2, "MiB memory that is left"),
        (Allowance(16, 64 * GIB, GIB // 2), 4, "shared memory"),
    ],
    ids=["plenty", "three cores and a half", "half a core", "little memory", "little shared"],
)
def test_no_setting_beyond_the_allowance_ever_takes_a_turn(
    allowance: Allowance, most: int, reason: str, settings_seen: list[Settings]
) -> None:
    found = rate_loading(loader_of(Items()), allowance=allowance)
    assert most_in(settings_seen) == most
    assert found.workers is not None
    assert found.workers.workers == most
    words = " ".join(each.why for each in found.refused if each.mode == "workers")
    assert reason in words
    assert bool(reason) == bool(words)


def test_a_worker_more_than_there_are_cores_is_too_much() -> None:
    allowance = Allowance(cores=2.5, memory_bytes=GIB, shared_bytes=GIB)
    assert allowance.worker_counts() == [1, 2]
    assert allowance.too_much(WorkerSettings(workers=2), batch_bytes=1) is None
    assert allowance.too_much(WorkerSettings(workers=3), batch_bytes=1) == (
        "3 are more than the 2.5 cores that this process may use"
    )
    assert allowance.too_much(ThreadSettings(threads=2, ahead=4), batch_bytes=GIB) == (
        "it takes 5,120 MiB of the 1,024 MiB memory that is left"
    )


def test_the_deadline_holds_where_one_batch_takes_seconds() -> None:
    loader = loader_of(Items(sleep_s=0.6))  # 2.4 s for a batch
    began = time.monotonic()
    found = rate_loading(loader, seconds=8, allowance=PLENTY, manner=rating.Manner())
    assert time.monotonic() - began < 8 + 8  # and what was under way is waited for
    assert not found.complete


def test_an_item_that_never_ends_does_not_hold_the_search() -> None:
    began = time.monotonic()
    slow = loader_of(Items(sleep_s=3600))
    found = rate_loading(
        slow,
        seconds=2,
        allowance=PLENTY,
        manner=rating.Manner(),
        only=[ThreadSettings(threads=1, ahead=1)],
    )
    assert time.monotonic() - began < 30
    assert (found.mode, found.rows_per_s) == ("own", None)
    assert found.why == "nothing could be measured"


def test_a_loader_without_a_batch_has_nothing_to_measure() -> None:
    found = rate_loading(DataLoader(Items(), batch_size=41, drop_last=True), seconds=2)
    assert (found.mode, found.why) == ("own", "nothing could be measured")


class Failing(Items):
    def __getitem__(self, index: int) -> Tensor:
        raise ValueError("no row is readable")


def test_what_fails_in_a_turn_is_a_reason_and_not_an_error() -> None:
    found = rate_loading(loader_of(Failing()), seconds=5, allowance=PLENTY, manner=rating.Manner())
    assert found.rows_per_s is None
    assert any("no row is readable" in each.why for each in found.refused)


def candidate(settings: Settings, *rates: int, own: bool = False) -> Candidate:
    return Candidate(settings, own, [Turn(rate, 1, 1.0, 1, 0.0, 1) for rate in rates])


NONE = WorkerSettings(workers=0)
CHOICES: dict[str, tuple[Callable[[], list[Candidate]], bool, Settings]] = {
    "fewer within three percent": (
        lambda: [
            candidate(NONE, 50, own=True),
            candidate(WorkerSettings(workers=2), 98),
            candidate(WorkerSettings(workers=4), 100),
        ],
        False,
        WorkerSettings(workers=2),
    ),
    "fewer within the spread of the fastest": (
        lambda: [
            candidate(WorkerSettings(workers=2), 95),
            candidate(WorkerSettings(workers=4), 92, 100, 108),
        ],
        False,
        WorkerSettings(workers=2),
    ),
    "more where they are faster": (
        lambda: [
            candidate(NONE, 90, own=True),
            candidate(ThreadSettings(threads=2, ahead=4), 100),
        ],
        False,
        ThreadSettings(threads=2, ahead=4),
    ),
    "the loader as it is, beside a CPU": (
        lambda: [
            candidate(NONE, 100, own=True),
            candidate(ThreadSettings(threads=1, ahead=2), 90),
        ],
        False,
        NONE,
    ),
    "made ahead, beside a device": (
        lambda: [
            candidate(NONE, 100, own=True),
            candidate(ThreadSettings(threads=1, ahead=2), 90),
        ],
        True,
        ThreadSettings(threads=1, ahead=2),
    ),
    "not made ahead where that is far slower": (
        lambda: [candidate(NONE, 100, own=True), candidate(WorkerSettings(workers=1), 60)],
        True,
        NONE,
    ),
}


@pytest.mark.parametrize("case", CHOICES)
def test_the_simplest_of_the_fastest_is_chosen(case: str) -> None:
    make, beside_device, expected = CHOICES[case]
    chosen = choose(make(), beside_device=beside_device)
    assert chosen is not None
    assert chosen.settings == expected


def test_a_turn_counts_the_rows_that_were_loaded() -> None:
    loader = loader_of(Items(row_bytes=100), drop_last=True)
    for settings in (NONE, WorkerSettings(workers=1), ThreadSettings(threads=2, ahead=4)):
        indices = iter([[row, row + 1, row + 2] for row in range(0, 30, 3)] * 1000)
        turn = turns.take_turn(loader, settings, indices, turn_s=0.05, limit_s=30)
        assert turn.rows == 3 * turn.batches
        assert turn.batch_bytes == 300
        assert turn.taken > turn.batches
        assert (turn.worker_bytes is not None) == (settings == WorkerSettings(workers=1))
