"""A loader that fetches rows of tensors one by one."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Severity
from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import read_loader


class InMemoryLoader(Rule):
    code = "HST101"
    name = "loader-over-data-in-memory"
    why = (
        "Rows that are in memory are taken out one by one and stacked again: a Python call for each"
        " sample, where indexing with the whole batch is a single one."
    )
    instead = (
        "Draw the indices of a batch, `order = torch.randperm(n)`, and index the tensors with a"
        " slice of them, or give the loader a `BatchSampler` as `sampler` and `batch_size=None`."
    )
    verify = "Compare the rows of the first batches from the same seed."
    risk = "the order of samples changes where another sampler draws it"
    calls = ("DataLoader",)
    least = Heat.ONCE
    severity: ClassVar[Severity | None] = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch.utils.data import DataLoader, TensorDataset

def loaders(x, y):
    dataset = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    train = DataLoader(dataset, batch_size=64, shuffle=True)  # !
    rows = DataLoader(torch.from_numpy(x).float(), batch_size=64)  # !
    return train, rows, DataLoader(TensorDataset(x), batch_size=64, num_workers=4)  # !
""",
        """\
import torch
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]

class Trainer:
    def __init__(self, x, y):
        self.dataset = Rows(x, y)
        self.loader = DataLoader(self.dataset, batch_size=64)  # !
""",
        """\
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

def loader(x):
    dataset = TensorDataset(x)
    batches = BatchSampler(RandomSampler(dataset), 64, drop_last=False)
    return DataLoader(dataset, sampler=batches, batch_size=None)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        loader = read_loader(site, look)
        if loader is not None and loader.trouble == "in memory":
            yield Found(
                site.node,
                f"this loader takes the rows of a `{loader.dataset}` one by one, and stacks them",
            )
