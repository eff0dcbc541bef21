"""Whole files that are read in a hot place."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, keyword, receiver
from hasten.scan.outline import Function, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import in_dataset
from hasten.scan.trace import names
from hasten.scan.vocabulary import words

TEXT = words("read_csv read_json read_excel read_table loadtxt genfromtxt yaml.load safe_load")
"""What takes far longer to parse than to keep: also for a data set's sample."""
MODULES = words("torch pickle json joblib yaml np numpy nib nibabel librosa torchaudio Image PIL")
LISTS = ("listdir", "scandir", "glob", "rglob")
WHOLE = ("read_text", "read_bytes", "readlines")
LOADS = re.compile(r"^_*(load|read)(_|$)")
"""How functions are called that are asked for a file: who asks is named."""
STATE = re.compile(r"check_?point|ckpt|weights|state|resume|model", re.IGNORECASE)


class FileRead(Rule):
    code = "HST106"
    name = "file-read-in-hot-place"
    why = (
        "The step waits for the disk and for the decoding of a file, each time, in the process that"
        " trains."
    )
    instead = (
        "Read ahead in the workers of a loader, or read once before the loop and keep what was"
        " decoded."
    )
    verify = "Compare a batch of both versions."
    effort = "an hour"
    risk = "what is kept takes memory"
    calls = (
        "imread", "read_image", "ReadImage", "open", "load", "loadtxt", "genfromtxt", "loadmat",
        "read_csv", "read_parquet", "read_json", "read_excel", "read_feather", "read_pickle",
        "read_table", "File", "safe_load", "decode_image", "decode_jpeg", "imdecode", "listdir",
        "scandir", "glob", "rglob", "read_text", "read_bytes", "readlines",
    )  # fmt: skip
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import cv2
import numpy as np
from PIL import Image

def imread(path):
    return cv2.imread(path, -1)

def get_batch(files, indices):
    return [imread(files[i]) for i in indices]  # !

def train(model, files, batch_size):
    for start in range(0, len(files), batch_size):
        x = get_batch(files, range(start, start + batch_size))
        mask = np.load(files[start] + ".npy")  # !
        with Image.open(files[start]) as image:  # !
            model(x, mask, image)
""",
        """\
import glob
import os
import pickle

import h5py
import pandas as pd
import torch
from torch.utils.data import Dataset

class Tables(Dataset):
    def __getitem__(self, index):
        return pd.read_csv(self.paths[index])  # !

class Stored(Dataset):
    def __getitem__(self, index):
        return torch.load(os.path.join(self.root, "all.pt"))[index]  # !

class Frames(Dataset):
    def __getitem__(self, index):
        with h5py.File(self.paths[index], "r") as file:  # !
            return file["frame"][:]

class Folder(Dataset):
    def __getitem__(self, index):
        name = sorted(os.listdir(self.root))[index]  # !
        return torch.load(name), glob.glob(f"{self.root}/*.png")[index]  # !

class Pickled(Dataset):
    def __getitem__(self, index):
        with open(self.path, "rb") as file:
            rows = pickle.load(file)  # !
        with open(self.names) as file:
            names = file.readlines()  # !
        meta = json.loads(Path(self.meta).read_text()), names[index]  # !
        return meta, rows[index], pickle.load(open(self.labels, "rb"))[index]  # !
""",
        """\
import os
import pickle

import cv2
import pandas as pd
import torch
from torch.utils.data import Dataset

class Images(Dataset):
    def __init__(self, files):
        self.masks = [cv2.imread(each) for each in files]

    def __getitem__(self, index):
        return cv2.imread(self.files[index])

class Stored(Dataset):
    def __init__(self, root):
        self.paths = os.listdir(root)

    def __getitem__(self, index):
        text = self.paths[index].read_text()
        return text, torch.load(self.paths[index]), os.listdir(self.folders[index])

def load_all(model, loader):
    for batch in loader:
        load_table(batch["path"])

def load_table(path):
    return pd.read_csv(path)

class Table(Dataset):
    def __getitem__(self, index):
        if not hasattr(self, "table"):
            self.table = pd.read_csv(self.path)
        with open(self.paths[index], "rb") as file:
            return pickle.load(file), self.table, pd.read_csv(self.path, nrows=0)

def train(model, loader, path):
    for step, batch in enumerate(loader):
        model(batch).backward()
        if step % 1000 == 0:
            model.load_state_dict(torch.load(path))
        with open("log.txt") as log, path.joinpath("log").open("w") as other:
            log.write("step")
        other = torch.load(f"{path}/checkpoint.pt")
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        called = look.dotted(site.node.func)
        module, _, last = called.rpartition(".")
        owner = module.rpartition(".")[2]
        if last in LISTS:
            if in_dataset(site) and site.node.args and not _depends_on_sample(site):
                message = f"`{look.source(site.node)}` lists the folder for each sample"
                yield Found(site.node, message, least=Heat.ELEMENT)
            return
        if site.called in WHOLE:
            if in_dataset(site) and not _depends_on_sample(site):
                message = f"`{look.source(site.node)}` reads the same file for each sample"
                yield Found(site.node, message, least=Heat.ELEMENT)
            return
        if not called or (last in ("load", "open") and owner not in MODULES):
            return
        if LOADS.search(site.function.last_name) and not in_dataset(site):
            return
        if site.function.last_name in self.calls:  # its caller is named
            return
        if not site.node.args or STATE.search(look.source(site.node)):
            return
        if _reads_little(site.node):
            return
        least = None
        if in_dataset(site):
            is_text = last in TEXT or f"{owner}.{last}" in TEXT
            if not is_text and last != "File" and _depends_on_sample(site):
                return
            least = Heat.ELEMENT
        yield Found(site.node, f"`{look.source(site.node)}` reads a file each time", least=least)


def _depends_on_sample(site: Site) -> bool:
    """Whether another sample has another file: to read it is the work itself."""
    first = site.node.args[0] if site.node.args else receiver(site.node)
    read = _opened(first, site.function) if first is not None else site.node
    function = site.function
    return any(
        each in function.parameters or each in function.bindings
        for each in names(read)
        if each != "self"
    )


def _opened(node: ast.expr, function: Function) -> ast.expr:
    """What ``open`` was given, also where a ``with`` gave the file a name; else the node."""
    if isinstance(node, ast.Name):
        node = next((each.value for each in function.bindings.get(node.id, ()) if each.value), node)
    if isinstance(node, ast.Call) and called_name(node) == "open" and node.args:
        return node.args[0]
    return node


def _reads_little(call: ast.Call) -> bool:
    """``nrows=0``: only the names of the columns."""
    rows = keyword(call, "nrows")
    return isinstance(rows, ast.Constant) and rows.value in (0, 1)
