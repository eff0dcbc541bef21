"""A loader that works in the process that trains."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Severity
from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import read_loader


class NoWorkers(Rule):
    code = "HST102"
    name = "loader-without-workers"
    why = (
        "Without workers each batch is read, decoded and stacked in the process that trains, while"
        " the device waits."
    )
    instead = (
        "Give `num_workers`, `persistent_workers=True` and `pin_memory=True`; for rows that are in"
        " memory, index them a batch at a time instead: workers would be slower."
    )
    verify = "Time an epoch of the loader alone, with and without."
    risk = "random transforms draw other numbers in workers"
    calls = ("*Loader",)
    least = Heat.ONCE
    severity: ClassVar[Severity | None] = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
from torch.utils.data import DataLoader

def loaders(train_set, test_set):
    train = DataLoader(train_set, batch_size=64, shuffle=True)  # !
    test = DataLoader(dataset=test_set, batch_size=64, num_workers=0, pin_memory=True)  # !
    return train, test
""",
        """\
from torch.utils.data import DataLoader

def loaders(train_set, **settings):
    mine = DataLoader(train_set, num_workers=4, pin_memory=True, persistent_workers=True)
    first = next(iter(DataLoader(train_set, batch_size=8)))
    whole = DataLoader(train_set, batch_size=len(train_set))
    return mine, first, whole, DataLoader(train_set, **settings)

def predict(model, dataset):
    return [model(x) for x in DataLoader(dataset, batch_size=64)]
""",
        """\
import torch
from mine.loading import DataLoader

def train(graph, model):
    for x in DataLoader(graph, batch_size=64):
        model(x).backward()
""",
        """\
import torch
from torch.utils.data import DataLoader, TensorDataset

class Model:
    def load(self, rows):
        return TensorDataset(torch.tensor([each.ids for each in rows]))

    def train(self, dataset):
        for x in DataLoader(dataset, batch_size=8):
            self.model(x).backward()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        loader = read_loader(site, look)
        if loader is not None and loader.trouble == "no workers":
            yield Found(
                site.node, "this loader has no workers: batches are made while training waits"
            )
