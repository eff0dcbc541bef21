"""A cache that never holds what it is asked for."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, is_own_attribute, receiver
from hasten.scan.outline import Function, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name

CACHES = ("lru_cache", "cache", "cached")
CACHE = re.compile(r"cache|memo", re.IGNORECASE)


class CacheNeverHit(Rule):
    code = "HST658"
    name = "cache-never-hit"
    why = (
        "What was computed is never found again, so it is computed each time, and the cache only"
        " takes memory: a tensor is found by which object it is, not by its values."
    )
    instead = (
        "Ask for the attribute by its own name; key by what the values come from (a number, a"
        " shape), and compare sizes with sizes."
    )
    risk = "what was stale by accident of a broken guard is then really kept"
    verify = "Count how often the guarded lines run."
    calls = ("hasattr", "getattr", "size", "get")
    nodes = (ast.Compare, ast.FunctionDef)
    compared = (ast.In, ast.NotIn)
    needs_torch = False
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Interval:
    def distance(self, x):
        if not hasattr(self, "self.left_tensor"):  # !
            self.left_tensor = torch.as_tensor(self.left)
        scale = getattr(self, "self.scale", None)  # !
        return x - self.left_tensor if scale is None else scale
""",
        """\
import functools
from functools import lru_cache
import torch

@lru_cache(maxsize=None)  # !
def embed(tokens: torch.Tensor) -> torch.Tensor:
    return tokens.float().mean(-1)

class Kernel(torch.nn.Module):
    @functools.cache  # !
    def gram(self, x):
        return torch.mm(x, x.unsqueeze(0))
""",
        """\
import torch

class Head(torch.nn.Module):
    def __init__(self):
        self.cache = {}
        self._memo = dict()

    def forward(self, x):
        if x not in self.cache:  # !
            self.cache[x] = self.layer(x)
        found = self._memo.get(x)  # !
        return self.cache[x] if found is None else found
""",
        """\
import torch

def gather(data, most=4096):
    if not hasattr(gather, "buffer") or gather.buffer.size() != most:  # !
        gather.buffer = torch.empty(most)
    return gather.buffer
""",
        """\
import functools
import torch

class Head(torch.nn.Module):
    def __init__(self):
        self.cache = {}

    @functools.lru_cache
    def mask(self, length: int):
        return torch.ones(length, length)

    def forward(self, x, shape):
        if not hasattr(self, "left_tensor"):
            self.left_tensor = torch.as_tensor(self.left)
        if x.shape[-1] not in self.cache:
            self.cache[x.shape[-1]] = self.mask(x.shape[-1])
        if x.size() != shape or x.size(0) != 3:
            raise ValueError(getattr(self, "name", None))
        return self.cache.get(x.shape[-1])
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node = site.node
        if isinstance(node, ast.Compare):
            yield from self._looked_up(node, site, look)
        elif isinstance(node, ast.FunctionDef):
            yield from self._cached_by_tensors(node, look)
        else:
            yield from self._called(node, site, look)

    def _called(self, call: ast.Call, site: Site, look: Look) -> Iterator[Found]:
        name, held = called_name(call), receiver(call)
        if name == "size":
            if _is_against_number(site):
                yield Found(site.parent, f"`{look.source(call)}` is never equal to a number")
        elif name == "get":
            if held is not None and call.args and _is_cache(held, site, look):
                yield from _keyed_by_tensor(call.args[0], call, site, look)
        elif held is None and (asked := _dotted_attribute(call)):
            yield Found(call, f"nothing has an attribute `{asked}`")

    def _looked_up(self, node: ast.Compare, site: Site, look: Look) -> Iterator[Found]:
        if isinstance(node.ops[0], ast.In | ast.NotIn) and _is_cache(
            node.comparators[0], site, look
        ):
            yield from _keyed_by_tensor(node.left, node, site, look)

    def _cached_by_tensors(self, node: ast.FunctionDef, look: Look) -> Iterator[Found]:
        for each in node.decorator_list:
            called = each.func if isinstance(each, ast.Call) else each
            if last_name(called) not in CACHES:
                continue
            function = next((one for one in look.outline.functions if one.node is node), None)
            if function is not None and look.values.parameters.takes_tensor(function):
                yield Found(each, f"`{node.name}` is cached by the tensors that it is given")


def _dotted_attribute(call: ast.Call) -> str:
    """``self.x`` of ``hasattr(self, "self.x")``; empty for a plain name."""
    match call.args:
        case [_, ast.Constant(value=str(name)), *_] if "." in name:
            return name
    return ""


def _keyed_by_tensor(key: ast.expr, at: ast.AST, site: Site, look: Look) -> Iterator[Found]:
    if look.value(key, site).is_tensor:
        yield Found(at, f"`{look.source(key)}` is a tensor, which no other one finds")


def _is_cache(node: ast.expr, site: Site, look: Look) -> bool:
    if not isinstance(node, ast.Name | ast.Attribute) or not CACHE.search(last_name(node)):
        return False
    return is_own_attribute(node) or look.value(node, site).kind == "dict"


def _is_against_number(site: Site) -> bool:
    """``buffer.size() != count``, of which one is a ``torch.Size``."""
    compared = site.parent
    if site.node.args or site.node.keywords or not isinstance(compared, ast.Compare):
        return False
    sides = [compared.left, *compared.comparators]
    others = [each for each in sides if each is not site.node]
    return (
        len(others) == 1
        and isinstance(compared.ops[0], ast.Eq | ast.NotEq)
        and _is_number(others[0], site.function)
    )


def _is_number(node: ast.expr, function: Function) -> bool:
    """Also a parameter that is a number if it is not given."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int)
    arguments = getattr(function.node, "args", None)
    if not isinstance(node, ast.Name) or not isinstance(arguments, ast.arguments):
        return False
    places = [*arguments.posonlyargs, *arguments.args]
    defaults = zip(reversed(places), reversed(arguments.defaults), strict=False)
    return any(
        each.arg == node.id and isinstance(value, ast.Constant) and type(value.value) is int
        for each, value in defaults
    )
