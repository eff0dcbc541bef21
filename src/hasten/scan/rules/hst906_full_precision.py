"""A training on a GPU in full precision."""

import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look
from hasten.scan.models import trained_by
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

CHOSEN = re.compile(
    r"autocast|\bamp\b|bfloat16|bf16|float16|fp16|\.half\(|mixed_precision|matmul_precision|tf32"
    r"|Accelerator|Fabric|deepspeed|float64|\.double\(|precision="
)
"""Words by which a file chooses a precision, or leaves that to others."""


class FullPrecision(Rule):
    code = "HST906"
    name = "full-precision-training"
    why = "Matrix products in fp32 take several times as long as in bf16 on GPUs that have both."
    instead = 'Put the forward pass and the loss under `torch.autocast("cuda", torch.bfloat16)`.'
    risk = "another precision: whether it trains as well, `hasten tune` tries and proves"
    verify = "hasten tune TASK: it trains pairs of seeds in both."
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
        optimizer.zero_grad()
        outputs = model(inputs.cuda())  # !
        loss = criterion(outputs, labels.cuda())
        loss.backward()
        optimizer.step()
""",
        """\
import torch

class Trainer:
    def fit(self, loader):
        for batch in loader:
            loss = self.model(batch.to(self.device)).loss  # !
            loss.backward()
            self.optimizer.step()
""",
        """\
import torch

def train(model, loader, optimizer, criterion):
    for inputs, labels in loader:
        with torch.autocast("cuda", torch.bfloat16):
            loss = criterion(model(inputs.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
""",
        """\
import torch

def train(model, loader, optimizer, criterion):
    for inputs, labels in loader:
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        model = trained_by(site, look)
        if model is not None and CHOSEN.search(look.text) is None:
            yield Found(model, f"`{look.source(model.func)}` is trained in full precision")
