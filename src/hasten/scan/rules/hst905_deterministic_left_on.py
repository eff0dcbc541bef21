"""Deterministic algorithms for all of training."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, assigned, is_constant
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class DeterministicLeftOn(Rule):
    code = "HST905"
    name = "deterministic-left-on"
    why = "Deterministic convolutions are slower, and without benchmarking none is chosen by time."
    instead = "Keep it where results must repeat to the bit; else switch benchmarking on."
    effort = "a minute"
    risk = "results of two runs differ by rounding"
    writes = ("deterministic",)
    calls = ("use_deterministic_algorithms",)
    least = Heat.ONCE
    severity = "info"
    default = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def seed(number):
    torch.manual_seed(number)
    torch.backends.cudnn.deterministic = True  # !
    torch.use_deterministic_algorithms(True)  # !
""",
        """\
import torch

def seed(number, repeat):
    torch.backends.cudnn.deterministic = repeat
    torch.use_deterministic_algorithms(False)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node = site.node
        called = getattr(node, "func", None)
        if called is None:
            on = "cudnn" in look.dotted(node) and is_constant(assigned(site), True)
        else:
            on = bool(node.args) and is_constant(node.args[0], True)
        if on:
            yield Found(node, "deterministic algorithms are slower")
