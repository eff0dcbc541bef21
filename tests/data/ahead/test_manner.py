"""What reading the code tells of a dataset: nothing that may draw is hidden by anything else."""

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from hasten.data.ahead.manner import Manner, manner_of
from hasten.data.ahead.workers import WorkerSettings, cannot_work

RARE = 1111


class Rows(Dataset[Tensor]):
    def __init__(self) -> None:
        self.table = torch.arange(5000.0)
        self.last = 0


class RemembersBeforeItDraws(Rows):
    def __getitem__(self, index: int) -> Tensor:
        self.last = index
        return self.table[index] + (random.random() if index == RARE else 0)


class HoldsDropout(Rows):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def __getitem__(self, index: int) -> Tensor:
        return self.dropout(self.table[index]) if index == RARE else self.table[index]


class MakesALayer(Rows):
    def __getitem__(self, index: int) -> Tensor:
        return nn.Linear(1, 1).weight[0, 0] if index == RARE else self.table[index]


class FillsAWeight(Rows):
    def __getitem__(self, index: int) -> Tensor:
        return nn.init.trunc_normal_(torch.zeros(1))[0] if index == RARE else self.table[index]


class DropsByAnotherName(Rows):
    def __getitem__(self, index: int) -> Tensor:
        if index == RARE:
            return torch.native_dropout(self.table[index : index + 1], 0.5, True)[0][0]
        return self.table[index]


class AsksByName(Rows):
    def jitter(self) -> float:
        return random.random()

    def __getitem__(self, index: int) -> Tensor:
        name = "jit" + "ter"
        return self.table[index] + (getattr(self, name)() if index == RARE else 0)


exec("def written_at_run_time():\n    return 0.5")


class CallsWhatHasNoSource(Rows):
    def __getitem__(self, index: int) -> Tensor:
        return self.table[index] + (written_at_run_time() if index == RARE else 0)  # noqa: F821


class ImportsLate(Rows):
    def __getitem__(self, index: int) -> Tensor:
        if index == RARE:
            from late_augment import jitter  # type: ignore[import-not-found]

            return self.table[index] + jitter()  # type: ignore[no-any-return]
        return self.table[index]


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (RemembersBeforeItDraws, "random"),
        (HoldsDropout, "Dropout in training mode"),
        (MakesALayer, "making a Linear may draw"),
        (FillsAWeight, "torch.nn.init draws"),
        (DropsByAnotherName, "native_dropout may draw"),
        (AsksByName, "getattr of a name that is known only as it runs"),
        (CallsWhatHasNoSource, "the source of written_at_run_time cannot be read"),
        (ImportsLate, "imports late_augment as it runs"),
    ],
)
def test_what_may_draw_in_one_item_of_many_is_said_to(make: Callable[[], Any], word: str) -> None:
    loader = DataLoader(make(), batch_size=4)
    manner = manner_of(loader)
    assert manner.random is not None
    assert word in manner.random
    assert cannot_work(loader, WorkerSettings(workers=2)) is not None


def test_what_is_imported_late_and_loaded_already_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "quiet_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "halves.py").write_text("def half(x):\n    return x / 2\n")
    (package / "rows.py").write_text(
        "import torch\n"
        "from torch.utils.data import Dataset\n"
        "import quiet_package.halves\n"
        "class Halves(Dataset):\n"
        "    def __len__(self):\n"
        "        return 8\n"
        "    def __getitem__(self, index):\n"
        "        from .halves import half\n"
        "        return half(torch.tensor(float(index)))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from quiet_package.rows import Halves  # type: ignore[import-not-found]

    assert manner_of(DataLoader(Halves())) == Manner()
    for name in [each for each in sys.modules if each.startswith("quiet_package")]:
        monkeypatch.delitem(sys.modules, name)
