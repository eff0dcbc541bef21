"""A tensor that decides what Python does next."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import FINITE, Look, called_name, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name
from hasten.scan.value import DEVICE_TENSOR


class TensorCondition(Rule):
    code = "HST203"
    name = "tensor-condition"
    why = (
        "To take a branch, Python needs the value: it waits until the device has computed it, and"
        " the device has nothing to do until the next launch."
    )
    instead = (
        "Say it with tensors (`torch.where`, a product with the mask, `clamp`), or check only every"
        " so many steps."
    )
    risk = "the other branch is computed too: mind what is not finite there"
    nodes = (ast.If, ast.While, ast.IfExp, ast.Assert)
    calls = ("equal", "allclose")
    waits = True
    examples: ClassVar[tuple[str, ...]] = (
        """\
import math
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        loss = model(x, y)
        if torch.isnan(loss):  # !
            continue
        if torch.equal(x.cuda(), y) or math.isnan(loss):  # !
            continue
        if not torch.isfinite(loss).all():  # !
            raise ValueError("loss")
        loss.backward()
        optimizer.step()
""",
        """\
import torch
from torch import nn

class Masked(nn.Module):
    def forward(self, x, mask):
        assert not torch.isnan(x).any(), "not a number"  # !
        count = mask.sum()
        if mask.any() and self.training:  # !
            x = x * mask
        return x.sum() / (count if count > 0 else 1)  # !
""",
        """\
import torch
from torch import nn

class Kernel(nn.Module):
    def forward(self, x1, x2, shape: torch.Tensor):
        same = torch.equal(x1, x2)  # !
        self.assertTrue(torch.equal(x1, x2))
        assert x1.shape == shape
        return x1 if same else x2
""",
        """\
import torch

def pick(values, limit):
    scores = torch.rand(values, device="cuda")
    for i in range(len(scores)):
        if scores[i] > limit:  # !
            break
""",
        """\
import torch
from torch import nn

class Masked(nn.Module):
    def resized(self, x, h, w):
        return x if h == w or torch.is_autocast_enabled() else x[None]

    def forward(self, x, mask=None, mode="sum"):
        if mask is not None and x.shape[0] > 1:
            x = torch.where(mask, x, 0)
        if x.dim() == 2 and len(x) > 3 and x.is_cuda and not x.is_complex():
            x = x[None]
        assert x.size(-1) == 3
        lengths = x.sum(1).cpu()
        return x if mode == "sum" or (lengths > 0).any() else None
""",
        """\
import math
import torch

def train(model, loader, optimizer):
    for step, (x, y) in enumerate(loader):
        loss = model(x, y)
        loss.backward()
        if math.isnan(step):
            break
        if step % 100 == 0:
            if torch.isnan(loss):
                break
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        parts = [site.node] if isinstance(site.node, ast.Call) else _parts(site.node.test)
        if not parts:
            return
        if site.function.last_name.startswith("test") or called_name(site.parent)[:6] == "assert":
            return
        for part in parts:
            if self._waits(part, site, look):
                least = Heat.ONCE if self._reads_each(part, site, look) else None
                yield Found(
                    part,
                    f"`{look.source(part)}` decides here, which waits for the device",
                    None,
                    least,
                )
                return

    def _reads_each(self, part: ast.expr, site: Site, look: Look) -> bool:
        """Whether it surely reads one element after the other from the device."""
        return (
            site.loop is not None
            and look.value(part, site) == DEVICE_TENSOR
            and site.loop.changes(part)
        )

    def _waits(self, part: ast.expr, site: Site, look: Look) -> bool:
        if isinstance(part, ast.Compare):
            sides = (part.left, *part.comparators)
            for each in sides:
                if last_name(each) == "shape" or _is_no_tensor(each):
                    return False
            for each in sides:
                if look.value(each, site).kind in ("text", "none", "list"):
                    return False
            for each in sides:
                if look.is_on_device(each, site) and not _is_size(each, site, look):
                    return True
            return False
        if isinstance(part, ast.Call) and called_name(part) in ("any", "all"):
            checked = receiver(part)
            if isinstance(checked, ast.Call) and called_name(checked) in FINITE:
                return not look.dotted(checked.func).startswith(("numpy.", "np.", "math."))
        if isinstance(part, ast.Call) and self._gives_bool(part, look):
            if look.is_of_torch(part) and not look.prepares_data(site):
                return all(look.value(each, site).where != "host" for each in part.args[:2])
            return look.is_on_device(part.args[0] if part.args else receiver(part), site)
        return look.is_on_device(part, site)

    def _gives_bool(self, part: ast.Call, look: Look) -> bool:
        """``torch.equal(a, b)``, ``math.isnan(loss)``: no tensor, for which they wait."""
        name = called_name(part)
        return name in ("equal", "allclose") or (name in FINITE and not look.is_of_torch(part))


ARE = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
ASKED_OF_TYPES = ("isinstance", "issubclass", "hasattr", "callable")
"""Functions of Python that no tensor comes from."""


def _parts(test: ast.expr) -> list[ast.expr]:
    """What stands between ``and``, ``or`` and ``not``, and may be a tensor."""
    if isinstance(test, ast.BoolOp):
        return [part for each in test.values for part in _parts(each)]
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _parts(test.operand)
    return [test] if _may_be_tensor(test) else []


def _is_size(side: ast.expr, site: Site, look: Look) -> bool:
    """``h`` of ``h == w``; a loss is one number."""
    return not last_name(side).endswith("loss") and look.is_only_named(side, site)


def _is_no_tensor(side: ast.expr) -> bool:
    """A text, None or a list, as it stands there."""
    if isinstance(side, ast.Constant):
        return side.value is None or isinstance(side.value, str)
    return isinstance(side, NO_TENSORS)


NO_TENSORS = (ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp, ast.JoinedStr)


def _may_be_tensor(part: ast.expr) -> bool:
    """Plain names are mostly flags: a tensor of many values cannot be one."""
    if isinstance(part, ast.Compare):
        return not isinstance(part.ops[0], ARE)
    if isinstance(part, ast.Call):
        return not isinstance(part.func, ast.Name) or part.func.id not in ASKED_OF_TYPES
    return isinstance(part, ast.Subscript)
