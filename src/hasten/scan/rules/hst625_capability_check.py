"""A check of the device's generation that leaves out devices that could."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar, TypeGuard

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, names_in
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

AMPERE = re.compile(r"\b8\.0\b|^\(8, 0\)$|^80$")
FAST_PATHS = re.compile(
    r"flash|bf16|bfloat16|tf32|sdp|fused|compil|autocast|\bamp\b", re.IGNORECASE
)


class CapabilityCheck(Rule):
    code = "HST625"
    name = "capability-check"
    why = (
        "Compute capability 8.0 is the first that has fused attention, bfloat16 and TF32, and all"
        " later ones have them too: `> 8.0` leaves out the A100, `== 8` all that came after."
    )
    instead = "Ask for `>= (8, 0)`."
    effort = "a minute"
    verify = "Read which path is taken on an A100 and on an H100."
    calls = ("get_device_capability", "get_device_properties")
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from packaging import version

def backend():
    properties = torch.cuda.get_device_properties(torch.device("cuda"))
    capability = version.parse(f"{properties.major}.{properties.minor}")
    if capability > version.parse("8.0"):  # !
        return "flash"
    return "math"
""",
        """\
import torch

def has_flash():
    device_properties = torch.cuda.get_device_properties(torch.device("cuda"))
    return device_properties.major == 8 and device_properties.minor == 0  # !
""",
        """\
import torch

def bf16():
    return torch.cuda.get_device_capability() > (8, 0)  # !
""",
        """\
import torch

def bf16():
    major, minor = torch.cuda.get_device_capability()
    if major > 7:
        return True
    return (major, minor) >= (8, 0)
""",
        """\
import torch

def block_size():
    major, minor = torch.cuda.get_device_capability()
    return 64 if major == 8 and minor == 0 else 128
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if not FAST_PATHS.search(look.text_of(site.function)):
            return
        compared = [each for each in walk(site.function.node) if _leaves_out(each, look)]
        told = _names_that_tell(site) if compared else set()
        for each in compared:
            about = any(part is site.node for part in walk(each.left))
            if about or told & {*names_in(each.left)}:
                yield Found(each, f"`{look.source(each)}` leaves out devices that could")


def _names_that_tell(site: Site) -> set[str]:
    """Names that are made of what was asked."""
    told = {
        name
        for name, bindings in site.function.bindings.items()
        if any(_is_in(site.node, each.value) for each in bindings)
    }
    if not told:
        return told
    for name, bindings in site.function.bindings.items():
        if any(each.value is not None and told & {*names_in(each.value)} for each in bindings):
            told.add(name)
    return told


def _is_in(asked: ast.Call, value: ast.expr | None) -> bool:
    if value is None or not value.lineno <= asked.lineno <= (value.end_lineno or 0):
        return False
    return asked in walk(value)


def _leaves_out(node: ast.AST, look: Look) -> TypeGuard[ast.Compare]:
    """``capability > (8, 0)``."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return False
    operator, against = node.ops[0], node.comparators[0]
    if not isinstance(operator, (ast.Gt, ast.Eq)):
        return False
    if isinstance(against, ast.Call) and called_name(against) not in ("parse", "Version"):
        return False
    words = look.source(against)
    is_major = isinstance(operator, ast.Eq) and words == "8"
    return is_major or AMPERE.search(words) is not None
