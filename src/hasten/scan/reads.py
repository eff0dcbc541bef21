"""``x.item()``: what is read there, and what numbers they are."""

import ast
import re
from typing import Literal, TypeGuard

from hasten.scan.look import Look
from hasten.scan.outline import Site

Holds = Literal["int", "float", "unknown"]
COPIES = ("item", "detach", "cpu", "numpy")
REDUCTIONS = ("mean", "sum", "max", "min")
TRUTHS = ("eq", "ne", "gt", "lt", "ge", "le", "isclose")
LOSS = re.compile(r"loss", re.IGNORECASE)
ACTION = re.compile(r"(\w+_)?act(ions?)?(_(np|numpy|cpu|host|tensor|t|env|batch|out))?$")
ACTS = re.compile(r"^_*((select|choose|get|sample|pick|take|compute|greedy|explore)_)?act(ions?)?$")


def before_copies(node: ast.expr) -> ast.expr:
    """``loss`` of ``loss.detach().cpu().item()``: which of them waits makes no difference."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr not in COPIES:
            break
        node = node.func.value
    return node


def is_read(node: ast.expr) -> TypeGuard[ast.Call]:
    """Whether it is ``x.item()``."""
    match node:
        case ast.Call(func=ast.Attribute(attr="item"), args=[], keywords=[]):
            return True
    return False


def holds(node: ast.expr) -> Holds:
    """What numbers a tensor is of: counts of what is true are whole, losses are not."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) if LOSS.search(name):
            return "float"
        case ast.Call(func=ast.Attribute(value=reduced, attr=name)) if name in REDUCTIONS:
            if name == "sum" and _is_truth(reduced) and not node.args and not node.keywords:
                return "int"
            return "float" if holds(reduced) == "float" else "unknown"
    return "unknown"


def _is_truth(node: ast.expr) -> bool:
    match node:
        case ast.Compare():
            return True
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in TRUTHS
    return False


def detached(site: Site, look: Look) -> str:
    """The method that leaves the graph behind, where there is one."""
    return "" if look.without_grad(site) else ".detach()"


def is_for_environment(read: ast.expr, site: Site) -> bool:
    """Actions are wanted on the host, step by step."""
    statement = site.statement
    if isinstance(statement, ast.Return) and ACTS.match(site.function.last_name):
        return True
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    if any(isinstance(each, ast.Name) and ACTION.match(each.id) for each in targets):
        return True
    while isinstance(read, ast.Call) and isinstance(read.func, ast.Attribute):
        read = read.func.value
    return isinstance(read, ast.Name) and ACTION.match(read.id) is not None
