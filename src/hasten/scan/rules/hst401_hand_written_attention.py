"""Attention written out as a product, a softmax and another product."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Function, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import FOLLOWED, following, last_given, last_name, operands
from hasten.scan.vocabulary import words

PRODUCTS = words("matmul bmm einsum baddbmm")
PASSED_THROUGH = words(
    "masked_fill masked_fill_ where dropout attn_dropout drop attn_drop float half to type view"
    " reshape type_as clamp contiguous softmax Dropout div mul add div_ mul_ add_ nan_to_num"
)
TRANSPOSED = words("transpose permute t mT T swapaxes swapdims movedim rearrange")
THROUGH = PASSED_THROUGH | TRANSPOSED
NEARBY = 12
"""Statements after the softmax among which its product with the values is looked for."""


class HandWrittenAttention(Rule):
    code = "HST401"
    name = "hand-written-attention"
    why = (
        "Scores, mask, softmax and dropout each read and write a whole matrix of positions by"
        " positions, which grows with the square of the length."
    )
    instead = (
        "Call `torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p)`,"
        " which never writes that matrix."
    )
    risk = "rounding: sums are taken in another order"
    effort = "an hour"
    calls = ("softmax", "Softmax")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
import torch.nn.functional as F

class Attention(torch.nn.Module):
    def forward(self, q, k, v, mask=None):
        scores = torch.matmul(q, k.transpose(-2, -1)) / self.scale  # !
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)  # !
        weights = F.softmax(scores, dim=-1)  # !
        weights = self.dropout(weights)
        return torch.matmul(weights, v)  # !
""",
        """\
import torch
from torch import einsum

class Attention(torch.nn.Module):
    def forward(self, x):
        q, k, v = self.to_qkv(x).chunk(3, dim=1)
        sim = einsum("b h i d, b h j d -> b h i j", q * self.scale, k)  # !
        attn = sim.softmax(dim=-1)  # !
        out = einsum("b h i j, b h j d -> b h i d", attn, v)  # !
        return self.to_out(out)
""",
        """\
import torch

class Attention(torch.nn.Module):
    def forward(self, q, k, v):
        attn = (q @ k.transpose(-2, -1)) * self.scale  # !
        attn = attn.softmax(dim=-1)  # !
        x = (attn @ v).transpose(1, 2)  # !
        return self.proj(x)
""",
        """\
import torch

class Map(torch.nn.Module):
    def forward(self, x):
        query, key, value = self.query(x), self.key(x), self.value(x)
        energy = torch.bmm(query.permute(0, 2, 1), key)  # !
        attention = self.softmax(energy)  # !
        return torch.bmm(value, attention.permute(0, 2, 1))  # !
""",
        """\
import torch
import torch.nn.functional as F

class Linear(torch.nn.Module):
    def forward(self, q, k, v):
        q, k = q.softmax(dim=-2), k.softmax(dim=-1)
        context = torch.einsum("bhdn,bhen->bhde", k, v)
        return torch.einsum("bhde,bhdn->bhen", context, q)

class Gate(torch.nn.Module):
    def forward(self, x, experts):
        gate = F.softmax(torch.matmul(x, self.weight), dim=-1)
        return torch.matmul(gate, experts)

class Fused(torch.nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        softmax, scored = _softmax(site, look)
        scores = _scores(scored, site.function)
        if scores is None or not _pairs_positions(scores, site.function):
            return
        product = _product_with(softmax, site)
        if product is None:
            return
        parts = [(scores, "scores"), (softmax, "softmax"), (product, "weighted sum")]
        mask = _mask_between(scored, site.function)
        if mask is not None:
            parts.append((mask, "mask"))
        for node, part in parts:
            yield Found(node, f"the {part} of an attention that is written out")


def _softmax(site: Site, look: Look) -> tuple[ast.expr, ast.expr | None]:
    """The call, and what it is taken of."""
    call: ast.Call = site.node
    if called_name(call) == "Softmax":
        made = site.parent
        if isinstance(made, ast.Call) and made.func is call and made.args:
            return made, made.args[0]
        return call, None
    if isinstance(call.func, ast.Attribute):
        base = call.func.value
        is_function = look.dotted(base).startswith(("torch", "self"))
        if not is_function:
            return call, base
    return call, call.args[0] if call.args else None


def _is_product(node: ast.expr | None) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    return called_name(node) in PRODUCTS


def _scores(node: ast.expr | None, function: Function, steps: int = FOLLOWED) -> ast.expr | None:
    """The product that an expression is made of by scaling, masking and adding."""
    if node is None or not steps:
        return None
    if _is_product(node):
        return node
    if isinstance(node, ast.Name):
        return _scores(last_given(node, function), function, steps - 1)
    passes = isinstance(node, ast.BinOp) or called_name(node) in PASSED_THROUGH
    for each in operands(node) if passes else ():
        found = _scores(each, function, steps - 1)
        if found is not None:
            return found
    return None


def _mask_between(node: ast.expr | None, function: Function) -> ast.expr | None:
    """The first ``masked_fill`` that the scores go through."""
    for _ in range(FOLLOWED):
        if called_name(node) in ("masked_fill", "masked_fill_"):
            return node
        if isinstance(node, ast.BinOp):
            node = node.left
        elif isinstance(node, ast.Name):
            node = last_given(node, function)
        else:
            return None
    return None


def _pairs_positions(product: ast.expr, function: Function) -> bool:
    """Whether it is of queries and keys, not of inputs and a weight."""
    if called_name(product) == "einsum":
        return not any(_is_weight(each) for each in operands(product)[-2:])
    factors = operands(product)[-2:]
    if any(_is_weight(each) for each in factors):
        return False
    return any(_is_transposed(each, function) for each in factors)


def _is_weight(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and last_name(node.value) == "self"


def _is_transposed(node: ast.expr, function: Function) -> bool:
    for _ in range(3):
        if called_name(node) in TRANSPOSED or last_name(node) in ("T", "mT"):
            return True
        earlier = last_given(node, function)
        if earlier is None:
            return False
        node = earlier
    return False


def _product_with(softmax: ast.expr, site: Site) -> ast.expr | None:
    """The product of the weights and the values."""
    for statement in (site.statement, *following(site)[:NEARBY]):
        for node in walk(statement):
            if isinstance(node, ast.expr) and _is_product(node):
                factors = _factors(node)[:2]
                if any(_comes_from(each, softmax, site.function) for each in factors):
                    return node
    return None


def _factors(product: ast.expr) -> list[ast.expr]:
    """Without the equation of an einsum and the module of a function."""
    if isinstance(product, ast.Call):
        method = isinstance(product.func, ast.Attribute) and last_name(product.func.value) not in (
            "torch",
            "th",
        )
        factors = operands(product) if method else product.args
        return [each for each in factors if not isinstance(each, ast.Constant | ast.JoinedStr)]
    return operands(product)


def _comes_from(node: ast.expr | None, source: ast.expr, function: Function) -> bool:
    for _ in range(FOLLOWED):
        if node is source or node is None:
            return node is source
        if isinstance(node, ast.Name):
            node = last_given(node, function)
        elif called_name(node) in THROUGH and operands(node):
            node = _inner(node)
        else:
            return False
    return False


def _inner(node: ast.expr) -> ast.expr:
    """What a call passes through: ``x`` of ``x.float()``, ``dropout(x)`` and ``self.drop(x)``."""
    first, *others = operands(node)
    is_named = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    if is_named and others and last_name(first) in ("self", "F", "torch", "functional", "nn"):
        return others[0]
    return first
