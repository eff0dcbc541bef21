"""A tensor that is made on the host and then copied."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Fix, Safety
from hasten.scan.arguments import take_over_argument, text_of_arguments
from hasten.scan.edits import fix_of, replace
from hasten.scan.heat import Heat
from hasten.scan.look import Look, argument, called_name, keyword, receiver
from hasten.scan.moves import moves_to_device
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_given, last_name
from hasten.scan.vocabulary import words


class MadeOnHost(Rule):
    code = "HST208"
    name = "made-on-host"
    why = (
        "The host fills the tensor and the copy keeps Python waiting; the device would fill it in"
        " no time, without a copy."
    )
    instead = (
        "Make it where it is used: `torch.zeros(n, device=x.device)`, `x.new_zeros(n)`; keep what"
        " does not change in a buffer."
    )
    risk = "random numbers come from the device's generator and are others than before"
    calls = ("to", "cuda", "type_as", "tensor", "as_tensor", "new_tensor")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        prior = torch.ones(x.shape).to(x.device)  # !
        steps = (torch.rand(4) * 3).long().cuda()  # !
        least = torch.tensor([0]).type_as(x)  # !
        start = torch.zeros(3, 4).to(x) + torch.ones(3, 4).type_as(x)  # !
        labels = torch.tensor(range(len(x)), device=x.device)  # !
        noise = torch.randn(3)  # !
        noise = noise.to(x.device)
        steps = x.new_tensor([len(row) for row in labels])  # !
        later = torch.triu(torch.ones(3, 3), diagonal=1).bool().to(x.device)  # !
        window = torch.hann_window(3).to(x.device)  # !
        noise = noise + self.normal.sample(x.shape).to(x.device)  # !
        rows, columns = torch.meshgrid(torch.arange(3), torch.arange(4))  # !
        rows = rows.to(x.device) * window + columns.to(x.device)
        rows = rows + torch.eye(3).to("cuda" if x.is_cuda else "cpu")  # !
        return prior + steps + least + start + labels + noise + later
""",
        """\
import numpy as np
import torch

def play(model, world, device):
    seen = world.reset()
    while True:
        seen = torch.as_tensor(np.asarray(seen), device=device)  # !
        seen = world.step(model(seen))
        rows = [each.row for each in seen]
        model(torch.tensor(rows, device=device))  # !
""",
        """\
from torch import cat, tensor
from tqdm import tqdm

def project(table, count):
    found = []
    for i in tqdm(range(count)):
        row = tensor([i], device=table.device)  # !
        found.append(table(row))
    for i in range(3):
        found.append(table(tensor([i], device=table.device)))
    return cat(found)
""",
        """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, device):
        self.scale = torch.ones(3).to(device)

    def forward(self, x):
        total = torch.tensor(0.0, device=x.device) + torch.as_tensor(x, device=x.device)
        zeros = torch.zeros(len(x), device=x.device).to(x.device) + x.new_tensor([1, 2])
        return total + zeros + torch.ones_like(x).to(x.device)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call = site.node
        if called_name(call) in ("tensor", "as_tensor"):
            if look.is_of_torch(call) and self._copies_list(call, site, look):
                message = f"`{look.source(call)}` is built in Python and copied"
                least = Heat.ONCE if _holds_counter(call.args[0], site, look) else None
                yield Found(call, message, _count_on_device(call, look), least)
            return
        moved = receiver(call)
        if moved is None or look.prepares_data(site):
            return
        if called_name(call) == "new_tensor":
            if self._holds_many(call, site, look):
                yield Found(call, f"`{look.source(call)}` is built in Python and copied")
            return
        if not self._moves(call, site, look):
            return
        made = _whole(look.origin(moved, site), site, look)
        if _is_drawn(moved) and not look.prepares_data(site):
            yield Found(call, f"`{look.source(moved)}` is drawn on the host and then copied")
        elif (
            look.makes_tensor(made)
            and not _is_scalar(made, site)
            and not look.needs_host(site.function)
        ):
            message = f"`{look.source(made)}` is made on the host and then copied"
            node = call if made.lineno >= site.statement.lineno else made
            yield Found(node, message, _make_on_device(call, made, look))

    def _moves(self, call: ast.Call, site: Site, look: Look) -> bool:
        """Also ``.to(x)``: to where another tensor lies."""
        if called_name(call) == "type_as" or moves_to_device(call):
            return True
        return bool(call.args) and look.is_on_device(call.args[0], site)

    def _holds_many(self, call: ast.Call, site: Site, look: Look) -> bool:
        given = argument(call, 0, "data")
        if isinstance(given, ast.Constant | ast.List | ast.Tuple):
            return False  # a number or a few
        return look.value(given, site).kind in ("list", "array")

    def _copies_list(self, call: ast.Call, site: Site, look: Look) -> bool:
        if keyword(call, "device") is None or not call.args or look.prepares_data(site):
            return False
        given = call.args[0]
        if isinstance(given, ast.Call) and called_name(given) == "range":
            return True
        kind = look.value(given, site).kind
        if site.loop is not None and site.loop.changes(given):
            return kind in ("list", "array", "unknown")
        return kind == "array" or (kind == "list" and site.loop is not None)


def _whole(made: ast.expr, site: Site, look: Look) -> ast.expr:
    """What ``torch.triu(torch.ones(n, n))`` is a part of, and ``x`` after ``x, y =
    torch.meshgrid(...)``."""
    given = last_given(made, site.function)
    if isinstance(given, ast.Call) and called_name(given) == "meshgrid":
        made = given
    if isinstance(made, ast.Call) and called_name(made) in PARTS and made.args:
        return look.origin(made.args[0], site)
    return made


PARTS = ("triu", "tril", "diag", "logical_not", "meshgrid")
DISTRIBUTION = re.compile(r"dist|normal|bernoulli|uniform|beta|gamma|categorical|prior", re.I)


def _is_drawn(moved: ast.expr) -> bool:
    """``self.normal.sample(shape)``: of a distribution whose parameters lie on the host."""
    if called_name(moved) not in ("sample", "rsample"):
        return False
    held = receiver(moved) if isinstance(moved, ast.Call) else None
    return DISTRIBUTION.search(last_name(held) or called_name(held)) is not None


def _holds_counter(given: ast.expr, site: Site, look: Look) -> bool:
    """``[i]`` in a loop over many: a copy for each, however seldom the loop runs."""
    if site.loop is None or not isinstance(given, ast.List) or len(given.elts) != 1:
        return False
    return (
        isinstance(given.elts[0], ast.Name)
        and look.value(given.elts[0], site).kind == "number"
        and site.loop.changes(given)
        and not look.heats.goes_over_few(site.loop)
    )


def _is_scalar(made: ast.expr, site: Site) -> bool:
    """A single constant, outside of any loop of the function."""
    return (
        site.loop is None
        and isinstance(made, ast.Call)
        and len(made.args) == 1
        and isinstance(made.args[0], ast.Constant)
        and called_name(made) == "tensor"
    )


EXACT = words("zeros ones full empty eye")
"""What is the same whichever device makes it."""
DRAWN = words("rand randn randint randperm")
CHANGES_MEANING = ("requires_grad", "out", "pin_memory", "names", "generator", "layout", None)
"""With these, a tensor that is copied is another than one that is made there."""


def _make_on_device(call: ast.Call, made: ast.expr, look: Look) -> Fix | None:
    """``torch.zeros(n).to(device)`` becomes ``torch.zeros(n, device=device)``."""
    device = _device_of(call, look)
    if device is None or receiver(call) is not made or not isinstance(made, ast.Call):
        return None
    if any(word.arg in CHANGES_MEANING for word in made.keywords):
        return None
    name = called_name(made)
    if name in EXACT or (name == "arange" and len(made.args) < 3):
        safety: Safety = "safe"
        about = "Makes it on the device."
    elif name in DRAWN:
        safety = "unsafe"
        about = "Draws on the device, whose random numbers are others."
    else:
        return None
    return fix_of(safety, about, *take_over_argument(look.lines, made, call, "device", device))


def _device_of(call: ast.Call, look: Look) -> str | None:
    """The device of ``.to(device)`` or ``.cuda()``; None where it says more than that, as
    ``.to(x)`` and ``.type_as(x)`` do."""
    if not moves_to_device(call):
        return None
    named = [word for word in call.keywords if word.arg != "non_blocking"]
    given = [*call.args, *(word.value for word in named if word.arg == "device")]
    if len(given) != len(call.args) + len(named) or len(given) > 1:
        return None
    if not given:
        return '"cuda"' if called_name(call) == "cuda" else None
    return None if isinstance(given[0], ast.Starred) else look.lines.of(given[0])


def _count_on_device(call: ast.Call, look: Look) -> Fix | None:
    """``torch.tensor(range(n), device=device)`` becomes ``torch.arange(n, device=device)``."""
    counted = call.args[0]
    if not isinstance(counted, ast.Call) or called_name(counted) != "range" or len(call.args) > 1:
        return None
    if not isinstance(call.func, ast.Attribute) or counted.keywords:
        return None
    arguments = text_of_arguments(look.lines, counted)
    if arguments is None:
        return None
    name_end = look.lines.end(call.func)
    safe = keyword(call, "dtype") is not None
    about = "Counts on the device." if safe else "Counts on the device, also none in whole numbers."
    return fix_of(
        "safe" if safe else "unsafe",
        about,
        look.lines.edit(name_end - len(call.func.attr), name_end, "arange"),
        replace(look.lines, counted, arguments),
    )
