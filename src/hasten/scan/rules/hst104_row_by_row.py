"""A data set that only indexes what is in memory."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Severity
from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import decodes, indexed_by_call, indexed_only, sample_methods


class RowByRow(Rule):
    code = "HST104"
    name = "dataset-indexes-row-by-row"
    why = (
        "Each sample costs a Python call, a view or a copy and a place in a list that is stacked"
        " again, though the whole data is in memory and a batch could be indexed at once."
    )
    instead = (
        "Make tensors of the data once, and add `__getitems__(self, indices)` or index with the"
        " indices of a whole batch."
    )
    verify = "Compare the rows of a batch of both versions."
    nodes = (ast.ClassDef,)
    least = Heat.ONCE
    severity: ClassVar[Severity | None] = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch.utils.data import Dataset

class Rows(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        x, y = self.x[index], self.y[index]  # !
        return x, y

class Columns(Dataset):
    def __getitem__(self, index):
        return {k: v[index] for k, v in self.x.items()}, self.y[index]  # !

class Pairs(Dataset[tuple]):
    def __getitem__(self, index):
        kind, index = divmod(index, self.count)
        if index >= self.most:
            raise IndexError(index)
        row = self.rows[index, :]  # !
        return Pair(kind=kind, row=row)

class Parts(Dataset):
    def __getitem__(self, index):
        found = {}
        for name, part in self.parts.items():
            found[name] = part[index]  # !
        return found, self.y[index]

class Sparse(Dataset):
    def __getitem__(self, i):
        row = torch.from_numpy(self.x[i].toarray()[0]).float()  # !
        return row

class Plain:
    def __len__(self):
        return len(self.y)

    def __getitem__(self, idx):
        if self.y is None:
            return torch.tensor(self.x[idx, :])  # !
        return torch.tensor(self.x[idx, :]), self.y[idx]

class Any(Dataset):
    def __getitem__(self, i):
        x, y = self.x, self.y
        row = safe_indexing(x, i)  # !
        return self.prepare(row, np.take(self.y, i, axis=0))  # !

class Scaled(Dataset):
    def __getitem__(self, idx):
        if torch.is_tensor(idx):
            idx = idx.tolist()
        row = self.x[idx, :]  # !
        row = (row - self.mean) / self.std
        return torch.from_numpy(row[:-1]), row[-1]

class Table(Dataset):
    def __len__(self):
        return len(self.x)

class Rest(Table):
    def __getitem__(self, n):
        return self._row(n)

    def _row(self, place):
        row = torch.as_tensor(self.x[place])  # !
        return torch.nn.functional.pad(row, (0, 1)), self.y[place]

class Windows(Dataset):
    def __getitem__(self, index):
        start = index * self.step
        end = start + self.width
        return self.x[start:end], self.y[end : end + 1]  # !
""",
        """\
import torch
from torch.utils.data import Dataset

class Images(Dataset):
    def __getitem__(self, index):
        return self.transform(load(self.paths[index])), self.y[index]

class Shown(Dataset):
    def __getitem__(self, index):
        return self.transform(index_image(self.image, index))

class Texts(Dataset):
    def __getitem__(self, index):
        return self.texts[index], self.labels[index]

class Records(Dataset):
    def __getitem__(self, index):
        record = self.records[index]
        return record["x"], record["y"]

class History:
    def __getitem__(self, name):
        return self.history[name]

class Wrapped(Dataset):
    def __getitem__(self, index):
        return self.train_dataset[self.order[index]]

class Parts:
    def __len__(self):
        return len(self.parts)

    def __getitem__(self, index):
        return self.parts[index]

class Batches(Dataset):
    def __getitem__(self, index):
        return self.x[index]

    def __getitems__(self, indices):
        return self.x[indices]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        for method in sample_methods(site, look):
            owner = method.owner
            if owner is None or "__getitems__" in owner.methods:
                continue
            first = indexed_only(method)
            if first is not None:
                held = look.source(first.value)
                yield Found(first, f"`{owner.name}` gives one row of `{held}` a call")
            elif not decodes(method, look):
                for call in indexed_by_call(method):
                    message = f"`{look.source(call.func)}` takes one row out of what is in memory"
                    yield Found(call, message)
