"""Data copied to 64 bits a number."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, keyword, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name
from hasten.scan.vocabulary import words

DTYPE = 5
"""The place of the type among the arguments of ``soundfile.read``, counted from 1."""
DOUBLE = ("float64", "double")
DECOMPOSES = words(
    "inverse inv pinverse pinv eigh eig eigvalsh svd svdvals cholesky qr solve det logdet slogdet"
    " matrix_exp lstsq"
)


class DoublePrecision(Rule):
    code = "HST312"
    name = "double-precision-data"
    why = (
        "Twice the memory of 32 bits, for data that a model takes as 32 bits; on most GPUs"
        " arithmetic in 64 bits is many times slower."
    )
    instead = "Use `float32`."
    risk = "rounding: fewer digits"
    effort = "a minute"
    calls = ("astype", "double", "to", "set_default_dtype", "read")
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
import soundfile as sf
import torch

torch.set_default_dtype(torch.float64)  # !

def transform(columns):
    return np.concatenate(columns, axis=1).astype(float)  # !

class Sounds(torch.utils.data.Dataset):
    def __getitem__(self, index):
        sound, rate = sf.read(self.paths[index])  # !
        return torch.tensor(sound, dtype=torch.float32)

class Net(torch.nn.Module):
    def forward(self, x):
        return self.layers(x.double()) + x.to(torch.float64)  # ! twice
""".replace("  # ! twice", "  # !"),
        """\
import numpy as np
import soundfile as sf
import torch

def transform(columns, mask):
    costs = -(mask > 0.5).astype(float)
    return np.concatenate(columns, axis=1).astype(np.float32)

class Sounds(torch.utils.data.Dataset):
    def __getitem__(self, index):
        return torch.from_numpy(sf.read(self.paths[index], dtype="float32")[0])

class Net(torch.nn.Module):
    def forward(self, x):
        inverse = torch.inverse(self.weight.double()).float()
        seen = x.cpu().double()
        high_precision = x.to(torch.float64)
        mask = torch.bernoulli(self.share).double()
        return self.layers(x.float()).to(torch.float32), mask.double()

def train(model, loader, optimizer):
    total = 0.0
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        total += loss.detach().double() * len(x)
    total = float(total)
    return total
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        name, held = called_name(call), receiver(call)
        if held is None:
            return
        if name == "read":
            is_sound = look.dotted(call.func) in ("soundfile.read", "sf.read")
            if is_sound and len(call.args) < DTYPE and keyword(call, "dtype") is None:
                yield Found(call, "sound is decoded to 64 bits a number, unless told otherwise")
        elif name == "set_default_dtype":
            if call.args and last_name(call.args[0]) in DOUBLE:
                yield Found(call, "all tensors are made with 64 bits", least=Heat.ONCE)
        elif name == "astype":
            is_joined = called_name(held) in ("concatenate", "stack", "vstack", "hstack")
            if is_joined and call.args and last_name(call.args[0]) in ("float", *DOUBLE):
                yield Found(call, "a whole table is copied to 64 bits", least=Heat.ONCE)
        elif _is_meant(held, site, look):
            return
        elif name == "double":
            if look.value(held, site).is_tensor and not call.args and not _is_drawn(held):
                yield Found(call, f"`{look.source(held)}` is computed in 64 bits")
        elif any(look.dotted(each) in ("torch.float64", "torch.double") for each in call.args):
            yield Found(call, f"`{look.source(held)}` is computed in 64 bits")


def _is_meant(held: ast.expr, site: Site, look: Look) -> bool:
    """Whether digits are needed or cost little: where a small matrix is taken apart, on the host,
    of what is true or false, in a sum of numbers, and where a name says that it is for
    precision."""
    if _is_added_to_number(site):
        return True
    if called_name(site.parent) in DECOMPOSES or look.is_mask(held, site):
        return True
    if look.value(held, site).where == "host" and not look.prepares_data(site):
        return True
    targets = site.statement.targets if isinstance(site.statement, ast.Assign) else []
    return any("precis" in last_name(each) for each in targets)


def _is_added_to_number(site: Site) -> bool:
    """``total += loss.double()`` where ``float(total)`` or ``total.item()`` is read, as can be done
    of one number only."""
    match site.statement:
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add()):
            return any(_is_number_of(name, each.node) for each in site.function.calls)
    return False


def _is_number_of(name: str, call: ast.Call) -> bool:
    match call:
        case ast.Call(func=ast.Name(id="float"), args=[ast.Name(id=read)]):
            return read == name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=read), attr="item")):
            return read == name
    return False


def _is_drawn(node: ast.expr) -> bool:
    """Whether it is one number for each sample: a mask, or drawn at random to be one."""
    return called_name(node) == "bernoulli" or "mask" in last_name(node)
