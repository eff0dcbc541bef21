"""A transform, a window or a table that is made anew in each step, always the same."""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import ClassVar

from hasten.scan.look import Look, is_own_attribute
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name

TRANSFORM = re.compile(
    r"^(torchaudio\.transforms|kornia\.(augmentation|filters))\.[A-Z]\w*[a-z]\w*$"
)
"""Modules that compute a kernel or a table where they are made."""
WINDOW = re.compile(
    r"^((hann|hamming|blackman|kaiser|bartlett)(_window)?|hanning|get_window|mel|melscale_fbanks)$"
)
MODULES = ("torch", "numpy", "np.", "scipy", "librosa")
TABLES = ("zeros", "ones", "eye", "arange", "linspace", "tensor", "Tensor", "FloatTensor")


class RebuiltConstant(Rule):
    code = "HST435"
    name = "rebuilt-constant"
    why = "It does not depend on the data, yet its kernel, window or table is computed every time."
    instead = "Make it once in `__init__` (`register_buffer`), or keep it by `functools.lru_cache`."
    effort = "minutes"
    nodes = (ast.Assign,)
    assigned = (ast.Call,)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
import torchaudio

def bands(rate, count):
    found = torch.zeros(count, rate)
    for i in range(count):
        found[i, i:] = 1
    return found

class Loss(torch.nn.Module):
    def forward(self, x, y):
        table = bands(rate=10000, count=15)  # !
        resample = torchaudio.transforms.Resample(16000, 10000).to(x.device)  # !
        spectrum = torchaudio.transforms.Spectrogram(n_fft=512)(x)  # !
        window = torch.hann_window(512, device=x.device)  # !
        wide = bands(self.sample_rate, self.n_bands)  # !
        return table @ resample(y) - spectrum * window @ wide
""",
        """\
import functools
import torch
import torchaudio

@functools.lru_cache
def bands(rate, count):
    return torch.zeros(count, rate)

def mask(size):
    return torch.ones(size, size).tril()

class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.resample = torchaudio.transforms.Resample(16000, 10000)
        self.table = mask(15)

    def forward(self, x):
        table = bands(rate=10000, count=15)
        wide = mask(x.size(1))
        if self.cache is None:
            self.cache = torch.hann_window(512)
        return table @ self.resample(x) + wide + bands(self.weights, x)
""",
        """\
import torch
import torchaudio
from torchvision import datasets, transforms

class Data:
    def train_transforms(self, x: torch.Tensor):
        spectrum = torchaudio.transforms.Spectrogram(n_fft=512)
        both = transforms.Compose([transforms.ToTensor(), transforms.Resize(64)])
        data = datasets.Cityscapes("train", transform=both)
        return spectrum, transforms.Normalize(0.5, 0.5)(x), data
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call = _made(site.node.value)
        if call is None or not _is_same_each_time(call, look):
            return
        if look.is_rare(site) or look.prepares_data(site):
            return
        if not TRANSFORM.match(look.dotted(call.func)) or _is_used_here(call, site, look):
            yield Found(call, f"`{look.source(call.func)}` makes the same each time")


def _is_used_here(call: ast.Call, site: Site, look: Look) -> bool:
    """Whether the function itself runs what it has made, and does not hand it over."""
    if any(isinstance(each, ast.Call) and each.func is call for each in walk(site.node.value)):
        return True
    target = last_name(site.node.targets[0])
    return any(
        isinstance(each.node.func, ast.Name) and each.node.func.id == target
        for each in site.function.calls
    )


def _is_same_each_time(call: ast.Call, look: Look) -> bool:
    called = call.func
    if isinstance(called, ast.Name) and _is_fixed(call):
        return _makes_table(called.id, look)
    name = last_name(called)
    if _is_window(name):
        return look.dotted(called).startswith(MODULES)
    return name[:1].isupper() and bool(TRANSFORM.match(look.dotted(called)))


@lru_cache(maxsize=10_000)
def _is_window(name: str) -> bool:
    return WINDOW.match(name) is not None


def _made(node: ast.expr) -> ast.Call | None:
    """``Resample(a, b)`` of ``Resample(a, b).to(device)`` and of ``Resample(a, b)(x)``."""
    while isinstance(node, ast.Call):
        called = node.func
        inner = called.value if isinstance(called, ast.Attribute) else called
        if not isinstance(inner, ast.Call):
            return node
        node = inner
    return None


def _is_fixed(call: ast.Call) -> bool:
    """Whether it is given constants and settings, and nothing else."""
    given = [*call.args, *(word.value for word in call.keywords)]
    return bool(given) and all(map(_is_setting, given))


def _is_setting(node: ast.expr) -> bool:
    """``8``, ``self.size``."""
    if isinstance(node, ast.UnaryOp):
        return _is_setting(node.operand)
    if is_own_attribute(node):
        return SETTING.search(last_name(node)) is not None
    return isinstance(node, ast.Constant)


SETTING = re.compile(
    r"size|length|width|channel|dim|rate|sigma|n_fft|(^|_)(num|n|max|min|hop|bins)_"
)
"""How numbers are called that a module is set up with."""


def _makes_table(name: str, look: Look) -> bool:
    """Whether it is a function of this file that builds a tensor and draws nothing."""
    function = look.outline.function_named(name)
    if function is None or getattr(function.node, "decorator_list", []):
        return False
    called = {each.called for each in function.calls}
    return any(each in TABLES for each in called) and not any("rand" in each for each in called)
