"""``torch.compiler.nested_compile_region``."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

NAME = "nested_compile_region"


class NestedCompileRegion(Rule):
    code = "HST624"
    name = "nested-compile-region"
    why = (
        "On CPU, torch 2.13 computes wrong gradients for such regions, while the loss stays equal"
        " to the bit: nothing shows it but training that goes wrong."
    )
    instead = "Compile the block itself with `module.compile()`."
    risk = "none to the loss; gradients become right"
    verify = "Compare gradients, not losses, with those of the model that is not compiled."
    calls = (NAME,)
    nodes = (ast.FunctionDef,)
    least = Heat.ONCE
    severity = "high"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Block(torch.nn.Module):
    @torch.compiler.nested_compile_region  # !
    def forward(self, x):
        return x + 1
""",
        """\
import torch
from torch.compiler import nested_compile_region

def build(block):
    return nested_compile_region(block)  # !
""",
        """\
import torch

class Block(torch.nn.Module):
    @torch.compile
    def forward(self, x):
        return x + 1
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node = site.node
        marks = [node.func] if isinstance(node, ast.Call) else node.decorator_list
        for each in marks:
            name = look.dotted(each)
            if name.startswith("torch.") and name.endswith(NAME):
                yield Found(each, f"`{NAME}` gives wrong gradients on CPU")
