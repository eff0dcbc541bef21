"""Rows of an open file that are read one at a time."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, is_own_attribute
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import in_dataset

FILES = re.compile(r"(^|_)(h5|hdf|hdf5|hf|h5f|h5file|file|handle|fh|fp|archive|zarr|store)$")


class FileRow(Rule):
    code = "HST105"
    name = "file-read-a-row-at-a-time"
    why = (
        "Each row is a lookup, a seek, a read and mostly the unpacking of a whole chunk of the"
        " file, of which the other rows are thrown away."
    )
    instead = (
        "Read the rows of a whole batch with one sorted index in `__getitems__`, or read the array"
        " once if it fits in memory; write it with chunks of a row if neither can be."
    )
    verify = "Compare the rows of a batch of both versions."
    effort = "an hour"
    nodes = (ast.Subscript,)
    indexed = tuple({*ast.expr.__subclasses__()} - {ast.Slice, ast.Constant})
    examples: ClassVar[tuple[str, ...]] = (
        """\
import h5py
import torch
from torch.utils.data import Dataset

class Lazy(Dataset):
    def __getitem__(self, index):
        return self._fetch(index)

    def _fetch(self, index):
        if self.file_handle is None:
            self.file_handle = h5py.File(self.path, "r")
        x = torch.from_numpy(self.file_handle["X"][index])  # !
        return x, self.h5["y"][index, 0]  # !
""",
        """\
import h5py
import numpy as np

def train(path, model, loader):
    with h5py.File(path) as f:
        for batch in loader:
            x = f["x"][batch]  # !
            model(x)
""",
        """\
import h5py
import zarr
from torch.utils.data import Dataset

class Kept(Dataset):
    def __init__(self, path):
        self.root = h5py.File(path)
        self.x = h5py.File(path)["x"]
        self.groups = zarr.open(path)

    def __getitem__(self, index):
        name, row = self.places[index]
        first = self.x[index], self.root["a"]["x"][index]  # !
        return first, self.root[name][row], self.groups["y"][()][index]  # !
""",
        """\
import h5py
from torch.utils.data import Dataset

class Whole(Dataset):
    def __init__(self, path):
        with h5py.File(path) as f:
            self.x = f["x"][:]
            self.first = f["x"][0], f["g"]["x"][()]
        self.parts = {"x": self.x}

    def __getitem__(self, index):
        return self.parts["x"][index]
""",
    )
    needs_torch = False

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node: ast.Subscript = site.node
        if isinstance(node.slice, ast.Slice | ast.Constant) or not isinstance(node.ctx, ast.Load):
            return
        if isinstance(node.slice, ast.Tuple) and not node.slice.elts:  # all of it
            return
        array = node.value
        if isinstance(array, ast.Subscript):
            is_row = _is_in_file(array, site, look)
        else:
            made = look.values.given(array, site.function) if _is_kept(array) else None
            is_row = isinstance(made, ast.Subscript) and _is_in_file(made, site, look)
        if is_row:
            least = Heat.ONCE if in_dataset(site) else None
            yield Found(node, f"`{look.source(node)}` reads one row of a file", least=least)


def _is_kept(array: ast.expr) -> bool:
    return isinstance(array, ast.Name) or is_own_attribute(array)


def _is_in_file(array: ast.Subscript, site: Site, look: Look) -> bool:
    """``file["x"]``, also of a group, ``file["a"]["x"]``, and ``file["x"][()]``, which reads all of
    it; by a key that is no constant only where it is known for a file."""
    keys = [array.slice]
    held = array.value
    while isinstance(held, ast.Subscript):
        keys.append(held.slice)
        held = held.value
    if any(isinstance(each, ast.Slice) for each in keys):
        return False
    if look.value(held, site).kind == "file":
        return True
    name = look.dotted(held).rpartition(".")[2].lower()
    return bool(FILES.search(name)) and isinstance(keys[-1], ast.Constant)
