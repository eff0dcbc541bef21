"""channels-last for the model or for its input, and not for the other."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, keyword, receiver
from hasten.scan.moves import moves_to_device
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name

MODEL = re.compile(
    r"model|net|module|backbone|encoder|decoder|generator|discriminator|critic", re.I
)
WORD = "channels_last"


class ChannelsLastOnOneSide(Rule):
    code = "HST660"
    name = "channels-last-on-one-side"
    why = (
        "Where weights and input lie differently each is converted at every step, in the first"
        " layers or in all of them: the layout costs and gains nothing."
    )
    instead = (
        "Convert both: the model once, `model.to(memory_format=torch.channels_last)`, and each"
        " batch, `x.to(device, memory_format=torch.channels_last)`."
    )
    effort = "a minute"
    risk = "rounding may differ"
    calls = ("to", "cuda", "contiguous")
    mentions = (WORD,)
    least = Heat.ONCE
    severity = "low"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer, device):
    model = model.to(device, memory_format=torch.channels_last)  # !
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        model(x, y).backward()
        optimizer.step()
""",
        """\
import torch

class Trainer:
    def __init__(self, net):
        self.net = net.cuda()

    def fit(self, loader):
        for x, y in loader:
            x = x.contiguous(memory_format=torch.channels_last)  # !
            self.net(x).sum().backward()
""",
        """\
import torch

def train(model, loader, device):
    model = model.to(device, memory_format=torch.channels_last)
    for x in loader:
        model(x.to(device, memory_format=torch.channels_last)).backward()
""",
        """\
import torch

def build(model):
    return model.to(memory_format=torch.channels_last)
""",
        """\
import torch

class Stem(torch.nn.Module):
    def forward(self, x):
        return self.layers(x.to(memory_format=torch.channels_last))
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        if not _is_converted(call):
            return
        is_model = _is_model(call, site, look)
        others = [each for each in _placed(look) if _is_model(each.node, each, look) != is_model]
        if any(_is_converted(each.node) for each in others) or not others:
            return
        if look.text.count(WORD) == len(
            [each for each in _placed(look) if _is_converted(each.node)]
        ) and _runs_model(look):
            said = (
                "the model is, its input is not" if is_model else "the input is, the model is not"
            )
            yield Found(call, f"channels-last: {said}")


def _is_converted(call: ast.Call) -> bool:
    layout = keyword(call, "memory_format")
    return layout is not None and last_name(layout) == WORD


def _placed(look: Look) -> list[Site]:
    """Calls of the file that put a model or a tensor somewhere or lay it out."""
    return [
        each
        for function in look.outline.functions
        for each in function.calls
        if each.called in ("to", "cuda", "contiguous")
        and (_is_converted(each.node) or moves_to_device(each.node))
    ]


def _is_model(call: ast.Call, site: Site, look: Look) -> bool:
    held = receiver(call)
    if look.value(held, site).kind == "module":
        return True
    return held is not None and MODEL.search(last_name(held)) is not None


def _runs_model(look: Look) -> bool:
    """Whether the file holds the loop of steps."""
    return any(loop.has_backward for function in look.outline.functions for loop in function.loops)
