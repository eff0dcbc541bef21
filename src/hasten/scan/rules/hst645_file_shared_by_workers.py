"""A file that a data set opens before its workers are made."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, is_own_attribute
from hasten.scan.outline import Class, Site
from hasten.scan.rule import Found, Rule

OPENS = ("h5py.File", "lmdb.open", "tables.open_file", "netCDF4.Dataset")


class FileSharedByWorkers(Rule):
    code = "HST645"
    name = "file-shared-by-workers"
    why = (
        "Workers inherit the open file and its position: they read from it at the same time and get"
        " each other's data, or it cannot be pickled and no worker starts."
    )
    instead = "Open the file at the first `__getitem__`, once in each worker."
    verify = "Compare all samples of a loader with two workers with those of one with none."
    calls = ("File", "open", "open_file", "Dataset")
    least = Heat.ONCE
    severity = "medium"
    needs_torch = True
    examples: ClassVar[tuple[str, ...]] = (
        """\
import h5py
import torch

class Samples(torch.utils.data.Dataset):
    def __init__(self, path):
        self.file = h5py.File(path, "r")  # !

    def __getitem__(self, index):
        return self.file["x"][index]
""",
        """\
import lmdb
import torch

class Images(torch.utils.data.Dataset):
    def __init__(self, path):
        self.env = lmdb.open(path, readonly=True)  # !

    def __getitem__(self, index):
        with self.env.begin() as reader:
            return reader.get(str(index).encode())
""",
        """\
import h5py
import torch

class Samples(torch.utils.data.Dataset):
    def __init__(self, path):
        self.path, self.file = path, None
        with h5py.File(path, "r") as file:
            self.length = len(file["x"])
        file = h5py.File(path, "r")
        self.names = list(file)
        file.close()

    def __getitem__(self, index):
        if self.file is None:
            self.file = h5py.File(self.path, "r")
        return self.file["x"][index]
""",
        """\
import h5py
import torch

class Samples(torch.utils.data.Dataset):
    def __init__(self, path):
        self.file = h5py.File(path, "r")
        self.names = list(self.file)
        self.file.close()

    def __getitem__(self, index):
        return self.names[index]

class Writer:
    def __init__(self, path):
        self.file = h5py.File(path, "w")
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        owner = site.function.owner
        if owner is None or site.function.last_name != "__init__":
            return
        if look.dotted(site.node.func) not in OPENS or "__getitem__" not in owner.methods:
            return
        kept = _kept_as(site)
        if kept and not _is_left_behind(owner, kept, look):
            yield Found(site.node, f"`self.{kept}` is opened before workers are made")


def _kept_as(site: Site) -> str:
    """The attribute of ``self`` that it becomes."""
    statement = site.statement
    if not isinstance(statement, ast.Assign) or statement.value is not site.node:
        return ""
    target = statement.targets[0]
    return target.attr if is_own_attribute(target) else ""  # type: ignore[attr-defined]


def _is_left_behind(owner: Class, name: str, look: Look) -> bool:
    """Whether it is closed again, or not handed to workers."""
    if "__getstate__" in owner.methods or len(owner.attributes.get(name, ())) > 1:
        return True
    text = look.text_of(owner.methods["__init__"])
    return f"self.{name}.close()" in text
