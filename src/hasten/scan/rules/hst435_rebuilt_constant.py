"""A transform, a window or a table that is made anew in each step, always the same."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name

TRANSFORM = re.compile(r"^(torchaudio|torchvision|kornia)\.(\w+\.)*[A-Z]\w+$")
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
        return table @ resample(y) - spectrum * window
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
        return table @ self.resample(x) + wide
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call = _made(site.node.value)
        if call is None or not _is_same_each_time(call, look):
            return
        if not look.is_rare(site) and not look.prepares_data(site):
            yield Found(call, f"`{look.source(call.func)}` makes the same each time")


def _is_same_each_time(call: ast.Call, look: Look) -> bool:
    called = call.func
    if isinstance(called, ast.Name) and _is_fixed(call):
        return _makes_table(called.id, look)
    name = last_name(called)
    if WINDOW.match(name):
        return look.dotted(called).startswith(MODULES)
    return name[:1].isupper() and bool(TRANSFORM.match(look.dotted(called)))


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
    """Whether it is given constants, and nothing else."""
    given = [*call.args, *(word.value for word in call.keywords)]
    return bool(given) and all(isinstance(each, ast.Constant) for each in given)


def _makes_table(name: str, look: Look) -> bool:
    """Whether it is a function of this file that builds a tensor and draws nothing."""
    function = look.outline.function_named(name)
    if function is None or getattr(function.node, "decorator_list", []):
        return False
    called = {called_name(each.node) for each in function.calls}
    return any(each in TABLES for each in called) and not any("rand" in each for each in called)
