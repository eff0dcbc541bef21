"""A loader that is made anew each epoch."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class LoaderRebuilt(Rule):
    code = "HST121"
    name = "loader-made-in-loop"
    why = "Workers and their copies of the data set are thrown away and started again."
    instead = (
        "Make the loader once before the loop; a sampler can change what an epoch goes through."
    )
    verify = "Compare the order of samples of two epochs."
    calls = ("DataLoader",)
    least = Heat.EPOCH
    examples: ClassVar[tuple[str, ...]] = (
        """\
from torch.utils.data import DataLoader

def train(model, dataset, epochs):
    for epoch in range(epochs):
        loader = DataLoader(dataset, batch_size=8, num_workers=4)  # !
        for x in loader:
            model(x).backward()
""",
        """\
from torch.utils.data import DataLoader

def train(model, dataset, epochs):
    loader = DataLoader(dataset, batch_size=8, num_workers=4)
    for epoch in range(epochs):
        for x in loader:
            model(x).backward()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if look.local(site).known >= Heat.EPOCH:
            yield Found(site.node, "this loader is made anew in each turn of the loop")
