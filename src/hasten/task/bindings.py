"""The names that a Python file binds at its top level, read from its text."""

import ast
import tokenize
from collections.abc import Iterator
from pathlib import Path

LARGEST_FILE_BYTES = 1_000_000
MAKE_NAMES = {"globals", "locals", "vars", "exec", "eval", "setattr", "__import__", "__name__"}
"""Whoever uses one of these may bind what no statement shows."""
HARMLESS = ("__name__ == '__main__'", "'__main__' == __name__", "logging.getLogger(__name__)")
REACH_MODULES = {"modules", "__dict__", "__globals__", "f_globals", "_getframe", "currentframe"}
TRUSTED = {
    *("dataclass", "dataclasses", "functools", "hasten", "logging", "np", "numpy", "os", "print"),
    *("random", "register_technique", "sys", "torch", "warnings"),
}
"""What is called at the top level, or decorates there, and binds nothing in its caller."""
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def names_bound_in(path: Path) -> set[str] | None:
    """None where the file may bind others as well, or is not Python; its importer will tell."""
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            return None
        return _names_bound_in(_parse(path))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def functions_in(path: Path) -> set[str]:
    """Those that can be called without arguments. Of a file that ``names_bound_in`` could read."""
    nodes = _at_top_level(_parse(path))
    return {
        each.name
        for each in nodes
        if isinstance(each, ast.FunctionDef) and _needs_nothing(each.args)
    }


def _needs_nothing(arguments: ast.arguments) -> bool:
    given = len(arguments.posonlyargs) + len(arguments.args) <= len(arguments.defaults)
    return given and None not in arguments.kw_defaults


def _parse(path: Path) -> ast.Module:
    with tokenize.open(path) as file:
        return ast.parse(file.read())


def _names_bound_in(tree: ast.Module) -> set[str] | None:
    harmless = {id(each) for each in ast.walk(tree) if _is_harmless(each)}
    if any(_makes_names(each) for each in _walk(tree, harmless)):
        return None
    nodes = list(_at_top_level(tree))
    if any(_calls_others(each) for each in nodes):
        return None
    names = {name for each in nodes for name in _bound_by(each)} | set(_bound_from_within(tree))
    return None if "__getattr__" in names else names


def _is_harmless(node: ast.AST) -> bool:
    return isinstance(node, ast.Compare | ast.Call) and ast.unparse(node) in HARMLESS


def _walk(node: ast.AST, leave_out: set[int]) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if id(child) not in leave_out:
            yield from _walk(child, leave_out)


def _makes_names(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return any(alias.name == "*" for alias in node.names)
    if isinstance(node, ast.Name):
        return node.id in MAKE_NAMES
    return isinstance(node, ast.Attribute) and node.attr in REACH_MODULES


def _at_top_level(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes that run as the file is imported, those of functions and classes left out."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, Definition | ast.Lambda):
            yield from _at_top_level(child)


def _calls_others(node: ast.AST) -> bool:
    """Code of others that runs for its effect, and that could reach into this module."""
    if isinstance(node, Definition):
        return any(_root(each) not in TRUSTED for each in node.decorator_list)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return _root(node.value) not in TRUSTED
    return False


def _root(node: ast.expr) -> str:
    """``torch`` of ``torch.cuda.seed(3)``."""
    while isinstance(node, ast.Call | ast.Attribute):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _bound_by(node: ast.AST) -> list[str]:
    if isinstance(node, Definition):
        return [node.name]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(each.asname or each.name).partition(".")[0] for each in node.names]
    if isinstance(node, ast.MatchAs | ast.MatchStar | ast.ExceptHandler) and node.name:
        return [node.name]
    return [node.rest] if isinstance(node, ast.MatchMapping) and node.rest else []


def _bound_from_within(tree: ast.AST) -> Iterator[str]:
    """By functions, and by what stands in their heads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names
        elif isinstance(node, ast.NamedExpr):
            yield node.target.id
