"""Rows or columns of a sparse matrix, made dense one at a time."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import in_dataset, indexed_only, takes_many


class SparseRow(Rule):
    code = "HST129"
    name = "sparse-rows-made-dense-one-by-one"
    why = "Each row of a sparse matrix is a matrix of its own first, which costs far more than it."
    instead = (
        "Take the rows of a whole batch at once: `x[rows].toarray()`; columns from a CSC matrix."
    )
    verify = "Compare the rows of both versions."
    calls = ("toarray", "todense", "getrow", "getcol")
    least = Heat.ONCE
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
from torch.utils.data import Dataset

class Rows(Dataset):
    def __getitem__(self, index):
        return self.scale(self.x[index].toarray()[0])  # !

def columns(x):
    for i in range(x.shape[1]):
        yield x.getcol(i)  # !
""",
        """\
def batches(x, rows):
    return x[rows].toarray(), x.todense()

class Batches(Dataset):
    def __getitem__(self, indices: list[int]):
        return {name: part[indices].toarray() for name, part in self.parts.items()}
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if receiver(site.node) is None or (in_dataset(site) and takes_many(site.function)):
            return
        of_sample = in_dataset(site) and indexed_only(site.function) is None
        if of_sample or look.local(site).inner:
            yield Found(site.node, f"`{look.source(site.node)}` is made for one row at a time")
