"""Attention written out as a product, a softmax and another product."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, is_constant
from hasten.scan.nodes import walk
from hasten.scan.outline import Function, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_given, last_name, operands
from hasten.scan.vocabulary import words

PRODUCTS = words("matmul bmm einsum baddbmm")
PASSED_THROUGH = words(
    "masked_fill masked_fill_ where float half to type view reshape type_as clamp contiguous"
    " softmax div mul add div_ mul_ add_ nan_to_num squeeze unsqueeze flatten unflatten sub"
    " multiply masked_softmax stable_softmax"
)
PASSES = re.compile(r"drop|rel_?pos|(^|_)bias|mask|alibi", re.IGNORECASE)
"""How layers and functions are called that leave scores or weights what they are."""
TRANSPOSED = words("transpose permute t mT T swapaxes swapdims movedim rearrange")
FUSED = words(
    "scaled_dot_product_attention memory_efficient_attention flash_attn_func flex_attention"
    " flash_attn_varlen_func flash_attn_qkvpacked_func"
)
QUERIES = re.compile(r"^(q|quer)|_(q|query|queries)$", re.IGNORECASE)
KEYS = re.compile(r"^(k|key)|_(k|key|keys)$", re.IGNORECASE)
SCORES = re.compile(r"^(scores?|attn|att|attention|dots|sim|energy)(_|$)|_scores?$")
STEPS_BACK = 24
"""Masks, biases and shapes that scores and weights may go through."""
NEARBY = 40
"""Lines after the softmax among which its product with the values is looked for."""


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
    calls = ("softmax", "Softmax", "masked_softmax", "stable_softmax")
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
from torch import nn

class Biased(nn.Module):
    def forward(self, q, k, v, mask, head_mask):
        scores = torch.matmul(q, k.transpose(-1, -2) * self.scale)  # !
        scores += self.bias
        if mask is not None:
            scores = scores.view(4, -1, self.heads, 9, 9) + mask.unsqueeze(1).unsqueeze(0)
            scores = scores.view(-1, self.heads, 9, 9)
        scores = add_rel_pos(scores, self.table)
        weights = nn.functional.softmax(scores.float(), dim=-1).type_as(scores)  # !
        weights = self.att_drop(weights)
        if head_mask is not None:
            weights = weights * head_mask
        return torch.bmm(weights.view(-1, 9, 9), v)  # !

class Window(nn.Module):
    def forward(self, x, mask):
        q, key, v = self.split(x)
        attn = (q @ key) * self.scale  # !
        if mask is not None:
            attn = self.softmax(attn + mask)  # !
        else:
            attn = self.softmax(attn)  # !
        return attn @ v  # !

class Split(nn.Module):
    def attend(self, value, scores, mask):
        weights = torch.softmax(scores.masked_fill(mask, -1e9), dim=-1)  # !
        return torch.matmul(self.dropout(weights), value)  # !
""",
        """\
import torch
import torch.nn.functional as F

class Chosen(torch.nn.Module):
    def forward(self, q, k, v):
        if self.fused:
            return F.scaled_dot_product_attention(q, k, v)
        attn = (q @ k.transpose(-2, -1)).softmax(dim=-1)
        return attn @ v

class Efficient(torch.nn.Module):
    def __init__(self, flash=True):
        super().__init__()
        self.flash = flash

    def fast(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)

    def forward(self, q, k, v):
        if self.flash:
            return self.fast(q, k, v)
        return (q @ k.transpose(-2, -1)).softmax(dim=-1) @ v

def expected(logits, values):
    return torch.softmax(logits, dim=-1) @ values

class Talking(torch.nn.Module):
    def forward(self, q, k, v):
        attn = self.mix(q @ k.transpose(-2, -1)).softmax(dim=-1)
        return attn @ v

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
        if scores is None and not _is_given_scores(scored, site.function):
            return
        if scores is not None and not _pairs_positions(scores, site.function):
            return
        product = _product_with(softmax, site)
        if product is None or _has_fused(site.function):
            return
        parts = [(softmax, "softmax"), (product, "weighted sum")]
        if scores is not None:
            parts.append((scores, "scores"))
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


def _has_fused(function: Function) -> bool:
    """Whether it calls what is fused as well, and this is for where that cannot be; so with another
    method of its class, unless that must be asked for."""
    if _calls_fused(function):
        return True
    methods = function.owner.methods if function.owner is not None else {}
    return any(map(_calls_fused, methods.values())) and not _is_asked_for(methods.get("__init__"))


def _calls_fused(function: Function) -> bool:
    return not function.called.isdisjoint(FUSED)


def _is_asked_for(init: Function | None) -> bool:
    """``def __init__(self, flash=False)``."""
    if init is None or not isinstance(init.node, ast.FunctionDef):
        return False
    arguments = init.node.args
    given = [*arguments.posonlyargs, *arguments.args][::-1]
    defaults = [
        *zip(given, arguments.defaults[::-1], strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return any(OPTION.search(each.arg) and is_constant(value, False) for each, value in defaults)


OPTION = re.compile(r"flash|fused|sdpa?|efficient|xformers")


def _is_product(node: ast.expr | None) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    return called_name(node) in PRODUCTS


def _scores(node: ast.expr | None, function: Function, steps: int = STEPS_BACK) -> ast.expr | None:
    """The product that an expression is made of by scaling, masking and adding."""
    if node is None or not steps:
        return None
    if _is_product(node):
        return node
    if isinstance(node, ast.Name):
        return _scores(last_given(node, function), function, steps - 1)
    for each in _passed(node):
        found = _scores(each, function, steps - 1)
        if found is not None:
            return found
    return None


def _passed(node: ast.expr) -> list[ast.expr]:
    """What scores may come from in a sum, a mask or a change of shape."""
    if isinstance(node, ast.BinOp):
        sides = [node.left, node.right]
        return sides if isinstance(node.right, ast.Call | ast.BinOp) else sides[:1]
    if called_name(node) == "where":
        return operands(node)
    return [_inner(node)] if _passes(node) else []


def _passes(node: ast.expr) -> bool:
    name = called_name(node)
    return bool(operands(node)) and (name in PASSED_THROUGH or bool(PASSES.search(name)))


def _is_given_scores(node: ast.expr | None, function: Function) -> bool:
    """Whether the function is handed the scores, by their name, and the values."""
    for _ in range(STEPS_BACK):
        if isinstance(node, ast.Name):
            if node.id in function.parameters and last_given(node, function) is None:
                return bool(SCORES.search(node.id)) and not VALUES.isdisjoint(function.parameters)
            node = last_given(node, function)
        elif isinstance(node, ast.expr) and (passed := _passed(node)):
            node = passed[0]
        else:
            return False
    return False


VALUES = words("v value values")


def _mask_between(node: ast.expr | None, function: Function) -> ast.expr | None:
    """The first ``masked_fill`` that the scores go through."""
    for _ in range(STEPS_BACK):
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
    factors = operands(product)[-2:]
    if any(_is_weight(each) for each in factors):
        return False
    if called_name(product) == "einsum" or len(factors) < 2:
        return True
    query, key = (last_name(_bare(each)) for each in factors)
    if QUERIES.search(query) and KEYS.search(key):
        return True
    return any(_is_transposed(each, function) for each in factors)


def _is_weight(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and last_name(node.value) == "self"


def _bare(node: ast.expr) -> ast.expr:
    """``q`` of ``q.contiguous() * scale``."""
    for _ in range(STEPS_BACK):
        if isinstance(node, ast.BinOp):
            node = node.left
        elif _passes(node):
            node = _inner(node)
        else:
            break
    return node


def _is_transposed(node: ast.expr, function: Function) -> bool:
    for _ in range(4):
        node = _bare(node)
        if called_name(node) in TRANSPOSED or last_name(node) in ("T", "mT"):
            return True
        earlier = last_given(node, function)
        if earlier is None:
            return False
        node = earlier
    return False


def _product_with(softmax: ast.expr, site: Site) -> ast.expr | None:
    """The product of the weights and the values: the first below."""
    first = site.statement.lineno
    products = [
        node
        for node in walk(site.function.node)
        if isinstance(node, ast.BinOp | ast.Call)
        and first <= node.lineno <= first + NEARBY
        and _is_product(node)
    ]
    for node in sorted(products, key=lambda each: each.lineno):
        if any(_comes_from(each, softmax, site.function) for each in _factors(node)[:2]):
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
    for _ in range(STEPS_BACK):
        if node is source or node is None:
            return node is source
        if isinstance(node, ast.Name):
            node = last_given(node, function)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            node = node.left if isinstance(node.right, ast.Name | ast.Constant) else node.right
        elif _passes(node) or called_name(node) in TRANSPOSED:
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
