"""A copy to the CPU that nobody waits for."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, argument, called_name, is_constant, keyword
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

WAITS = (".synchronize(", ".wait(", ".query(", ".wait_event(", ".wait_stream(")
"""In any function of the file: the one that copies is seldom the one that waits."""


class NonBlockingToCpu(Rule):
    code = "HST650"
    name = "non-blocking-to-cpu"
    why = (
        "The call returns before the bytes are there: whoever reads the result on the CPU may read"
        " what was in memory before."
    )
    instead = "Leave `non_blocking` out, or record an event and wait for it before reading."
    effort = "a minute"
    verify = "Compare with the blocking copy while the device is busy."
    calls = ("to",)
    least = Heat.ONCE
    severity = "high"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def predict(model, loader):
    return [model(x).to("cpu", non_blocking=True) for x in loader]  # !
""",
        """\
import torch

def read(x):
    return x.to(device=torch.device("cpu"), non_blocking=True).numpy()  # !
""",
        """\
import torch

def read(x, device, done):
    y = x.to("cpu", non_blocking=True)
    done.record()
    done.synchronize()
    return y.numpy()

def send(x, device):
    return x.to(device, non_blocking=True), x.to("cpu")
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if not is_constant(keyword(site.node, "non_blocking"), True):
            return
        target = argument(site.node, 0, "device")
        if isinstance(target, ast.Call) and called_name(target) == "device" and target.args:
            target = target.args[0]
        if not is_constant(target, "cpu"):
            return
        if not any(each in look.text for each in WAITS):
            yield Found(site.node, "the copy to the CPU may be read before it is done")
