"""Tuning of compiled code that takes very long."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, assigned, is_constant, keyword
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

NAME = "coordinate_descent_tuning"


class LongTuning(Rule):
    code = "HST904"
    name = "long-compile-tuning"
    why = "Coordinate descent tries many versions of each kernel: minutes of compiling for little."
    instead = "Measure both, compile time and all; it pays only for very long trainings."
    effort = "a minute"
    calls = ("compile",)
    writes = (NAME,)
    least = Heat.ONCE
    severity = "info"
    default = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch._inductor.config
import torch

torch._inductor.config.coordinate_descent_tuning = True  # !
""",
        """\
import torch

def build(model):
    return torch.compile(model, options={"coordinate_descent_tuning": True})  # !
""",
        """\
import torch

torch._inductor.config.coordinate_descent_tuning = False

def build(model):
    return torch.compile(model, options={"max_autotune": True})
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node = site.node
        if not isinstance(node, ast.Call):
            if is_constant(assigned(site), True):
                yield Found(node, f"`{NAME}` compiles for long")
            return
        options = keyword(node, "options")
        if isinstance(options, ast.Dict) and any(
            is_constant(name, NAME) and is_constant(value, True)
            for name, value in zip(options.keys, options.values, strict=True)
        ):
            yield Found(node, f"`{NAME}` compiles for long")
