"""Attention that is restricted to one kernel."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, argument, called_name, is_constant, keyword
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

SWITCHES = ("enable_flash", "enable_math", "enable_mem_efficient")
FUSED = ("enable_flash_sdp", "enable_mem_efficient_sdp")


class OneAttentionBackend(Rule):
    code = "HST626"
    name = "one-attention-backend"
    why = (
        "Torch picks the fastest kernel that can do the job. With only one allowed, inputs that it"
        " cannot do (a mask, float32, a head size) raise an error, and faster ones are left out."
    )
    instead = "Leave the choice to torch, or allow several backends in the order that you like."
    effort = "a minute"
    risk = "another kernel may round differently"
    calls = ("sdpa_kernel", "sdp_kernel", *FUSED)
    nodes = (ast.ImportFrom,)
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

def attend(q, k, v):
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # !
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)
""",
        """\
import torch
from torch.nn.attention import SDPBackend
from mine import Config

class Attend(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.on_cpu = Config([SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION])
        self.on_device = Config([SDPBackend.FLASH_ATTENTION])  # !
""",
        """\
import torch

def attend(q, k, v):
    with torch.backends.cuda.sdp_kernel(  # !
        enable_flash=True, enable_math=False, enable_mem_efficient=False
    ):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)
""",
        """\
import torch

torch.backends.cuda.enable_flash_sdp(False)  # !
torch.backends.cuda.enable_mem_efficient_sdp(True)
torch.backends.cuda.enable_math_sdp(False)
""",
        """\
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

def attend(q, k, v, backends):
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]):
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    with sdpa_kernel(backends):
        out = torch.nn.functional.scaled_dot_product_attention(out, k, v)
    with torch.backends.cuda.sdp_kernel(enable_math=False):
        return torch.nn.functional.scaled_dot_product_attention(out, k, v)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        for each in _restrictions(site.node, look):
            yield Found(each, "torch may not pick the fastest kernel of attention")


def _restrictions(node: ast.AST, look: Look) -> Iterator[ast.AST]:
    if isinstance(node, ast.ImportFrom):
        if _imports_backends(node):
            yield from _lists_of_one(look)
    elif isinstance(node, ast.Call):
        name, allowed = called_name(node), argument(node, 0, "backends")
        if name == "sdp_kernel":
            if _switches_off_all_but_one(node):
                yield node
        elif name in FUSED:
            if is_constant(argument(node, 0, "enabled"), False):
                yield node
        elif allowed is not None and _is_one(allowed):
            yield allowed


def _imports_backends(node: ast.ImportFrom) -> bool:
    return any(each.name == "SDPBackend" for each in node.names)


def _lists_of_one(look: Look) -> Iterator[ast.expr]:
    """Of the whole file: backends are often kept in a setting and used elsewhere."""
    for each in walk(look.outline.tree):
        if isinstance(each, ast.List | ast.Tuple) and _is_one(each):
            yield each


def _is_one(node: ast.expr | None) -> bool:
    if isinstance(node, ast.List | ast.Tuple):
        return len(node.elts) == 1 and _is_one(node.elts[0])
    if not isinstance(node, ast.Attribute):
        return False
    owner = node.value
    name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return name == "SDPBackend"


def _switches_off_all_but_one(call: ast.Call) -> bool:
    """Flash, math and memory-efficient attention are all on by default."""
    off = sum(is_constant(keyword(call, each), False) for each in SWITCHES)
    off += sum(is_constant(each, False) for each in call.args)
    return off >= 2
