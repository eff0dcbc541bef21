"""A loader of one's own that collates in the process that trains."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Severity
from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class CollatedInPlace(Rule):
    code = "HST123"
    name = "own-loader-without-workers"
    why = "Batches are put together when they are asked for, while the device waits."
    instead = (
        "Give what decides on the batches to a `DataLoader` as its `batch_sampler`, or make this an"
        " `IterableDataset` of one with `batch_size=None` and workers."
    )
    verify = "Compare the batches of both versions."
    effort = "an hour"
    calls = ("collate_fn", "collate", "default_collate")
    least = Heat.ONCE
    needs_torch = False
    severity: ClassVar[Severity | None] = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Batches:
    def __iter__(self):
        for rows in self.draw():
            yield self.collate_fn(rows) if self.collate_fn is not None else rows  # !
""",
        """\
import torch
from torch.utils.data import DataLoader, IterableDataset

class Loader(DataLoader):
    def __iter__(self):
        for rows in self.draw():
            yield self.collate_fn(rows)

class Rows(IterableDataset):
    def __iter__(self):
        for rows in self.draw():
            yield self.collate(rows)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        owner = site.function.owner
        if owner is None or site.function.last_name not in ("__iter__", "__next__"):
            return
        if not any(base.endswith(("Loader", "Dataset")) for base in owner.bases):
            yield Found(site.node, f"`{owner.name}` collates in the process that trains")
