"""A training on a GPU that launches one operation after the other."""

import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look
from hasten.scan.models import trained_by
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

CHOSEN = re.compile(r"compile|CUDAGraph|cuda\.graph|make_graphed_callables|jit\.(script|trace)")
"""Words by which a file does otherwise, at least at times."""


class EagerTraining(Rule):
    code = "HST907"
    name = "eager-training"
    why = "Every operation is launched from Python and goes to memory and back by itself."
    instead = "`model = torch.compile(model)` before the loop."
    risk = "rounding, and a first step that takes a minute: it pays in long runs only"
    verify = "hasten tune TASK: it tries that, and says after how many steps it has paid."
    effort = "a minute"
    calls = ("backward",)
    in_loops = True
    severity = "info"
    default = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch import nn

def train(model, loader, optimizer):
    bce, judge = nn.BCEWithLogitsLoss(), nn.MSELoss()
    far = nn.L1Loss()
    model.to("cuda")
    for inputs, labels in loader:
        scores = model(inputs.cuda())  # !
        loss = bce(scores, labels.cuda())
        loss.backward()
        apart = far(
            model(inputs.cuda()),  # !
            labels,
        )
        apart.backward()
        optimizer.step()
""",
        """\
import torch

def train(model, loader, optimizer, criterion):
    model.to("cuda")
    for inputs, labels in loader:
        loss = criterion(model(inputs.cuda()), labels.cuda())  # !
        loss.backward()
        optimizer.step()
""",
        """\
import torch

def train(model, loader, optimizer, criterion):
    model = torch.compile(model.to("cuda"))
    for inputs, labels in loader:
        loss = criterion(model(inputs.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        model = trained_by(site, look)
        if model is not None and CHOSEN.search(look.text) is None:
            yield Found(model, f"`{look.source(model.func)}` is trained without being compiled")
