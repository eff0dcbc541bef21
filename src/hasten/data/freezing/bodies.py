"""Reads the body of one function: what it names, and whether it changes what lives on."""

import ast
import builtins
import dataclasses
import functools
import inspect
import linecache
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hasten.data.freezing import known
from hasten.data.freezing.doubt import Doubt, Doubts, Unread
from hasten.data.freezing.owned import PLAIN, cells_of

MISSING = object()
NAMED = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.ExceptHandler,
    ast.MatchAs,
    ast.MatchStar,
)
"""What binds a name of its own."""
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclasses.dataclass(frozen=True)
class Outside:
    """A variable that is not the dataset's own, by which items are made."""

    holder: Any
    """A dictionary of variables, or a class."""
    name: str

    @property
    def value(self) -> Any:
        if isinstance(self.holder, type):
            return inspect.getattr_static(self.holder, self.name, None)
        return self.holder.get(self.name)


@dataclasses.dataclass
class Mentions:
    attributes: set[str] = dataclasses.field(default_factory=set)
    """Names of attributes."""
    objects: list[tuple[Any, str]] = dataclasses.field(default_factory=list)
    """What the names stand for where they are those of modules, and where."""
    outside: list[Outside] = dataclasses.field(default_factory=list)
    doubts: Doubts = dataclasses.field(default_factory=Doubts)


def read_body(function: types.FunctionType, *, is_method: bool) -> Mentions:
    """Raises ``Doubt``."""
    found = Mentions()
    for tree in _trees_of(function):
        _Body(function, tree, is_method, found).read()
    return found


def _trees_of(function: types.FunctionType) -> list[Function]:
    """Its source; where it cannot be told from that of others of its line, theirs too."""
    code = function.__code__
    trees = [
        node
        for node in ast.walk(_parse(code.co_filename))
        if isinstance(node, Function)
        and _first_line(node) == code.co_firstlineno
        and getattr(node, "name", "<lambda>") == code.co_name
    ]
    lambdas = [each for each in trees if isinstance(each, ast.Lambda)]
    if len(lambdas) > 1:
        return [*_told_apart(lambdas, code)]
    if not trees:
        place = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
        raise Unread(f"{place}: the source of {function.__qualname__} cannot be read")
    return trees


def _told_apart(lambdas: list[ast.Lambda], code: types.CodeType) -> list[ast.Lambda]:
    """Which of those that begin on one line it is: the innermost that has all of its places."""
    places = [
        place
        for line, end_line, column, end_column in code.co_positions()
        if line and end_line and column is not None and end_column
        for place in ((line, column), (end_line, end_column))
    ]
    around = [
        each
        for each in lambdas
        if _start(each) <= min(places, default=(0, 0)) and max(places, default=(0, 0)) <= _end(each)
    ]
    return [max(around, key=_start)] if places and around else lambdas


def _start(tree: ast.Lambda) -> tuple[int, int]:
    return tree.body.lineno, tree.body.col_offset


def _end(tree: ast.Lambda) -> tuple[int, int]:
    return tree.body.end_lineno or 0, tree.body.end_col_offset or 0


@functools.lru_cache(maxsize=64)
def _parse(filename: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return ast.Module([], [])


def _first_line(node: Function) -> int:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min([node.lineno, *(each.lineno for each in decorators)])


class _Body:
    def __init__(
        self, function: types.FunctionType, tree: Function, is_method: bool, found: Mentions
    ) -> None:
        self._tree, self._found = tree, found
        self._file = Path(function.__code__.co_filename).name
        self._cells, self._globals = cells_of(function), function.__globals__
        self._locals, self._imports = _bound_in(tree), dict[str, Any]()
        parameters = [*tree.args.posonlyargs, *tree.args.args]
        self._self = parameters[0].arg if is_method and parameters else None
        self._other_names = set(self._second_names())

    def read(self) -> None:
        nodes = list(_inside(self._tree))
        gathered = self._found.doubts.gathered
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                with gathered():
                    self._note_import(node)
        inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        for node in nodes:
            with gathered():
                self._doubt_statement(node)
            if isinstance(node, ast.Call):
                with gathered():
                    self._read_call(node)
            if isinstance(node, ast.Attribute):
                self._found.attributes.add(node.attr)
            if isinstance(node, ast.Name | ast.Attribute) and id(node) not in inner:
                with gathered():
                    self._resolve(node)

    def _where(self, node: ast.AST) -> str:
        return f"{self._file}:{getattr(node, 'lineno', self._tree.lineno)}"

    def _doubt_statement(self, node: ast.AST) -> None:
        if isinstance(node, ast.Global | ast.Nonlocal):
            raise Doubt(f"{self._where(node)}: assigns to {', '.join(node.names)} outside of it")
        if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
            raise Doubt(f"{self._where(node)}: waits for something outside of it")
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            root = _root(node, through_calls=True)
            if self._lives_on(root) and not self._opens_late(node):
                raise Doubt(
                    f"{self._where(node)}: assigns to {ast.unparse(node)}, which lives on from item"
                    " to item"
                )

    def _lives_on(self, root: str | None) -> bool:
        """Of a name: whether what it stands for is there before and after."""
        own = root in self._locals and root not in self._other_names
        return root is not None and (root == self._self or not own)

    def _second_names(self) -> Iterator[str]:
        """Of what lives on, as ``table`` behind ``table = self.table``."""
        for node in _inside(self._tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                chain = _chain(node.value)
                if chain and (chain[0] == self._self or chain[0] not in self._locals):
                    yield node.targets[0].id

    def _opens_late(self, target: ast.Attribute | ast.Subscript) -> bool:
        """``if self.file is None: self.file = open(...)``: something to read from, kept."""
        name = ast.unparse(target)
        for test in ast.walk(self._tree):
            if isinstance(test, ast.If) and _asks_for(test.test, name):
                for node in test.body:
                    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                        value = node.value
                        return isinstance(value, ast.Call) and _last(value.func) in known.OPENERS
        return False

    def _read_call(self, call: ast.Call) -> None:
        name, where = _last(call.func), self._where(call)
        if name == "getattr":
            wanted = call.args[1] if len(call.args) > 1 else None
            if not (isinstance(wanted, ast.Constant) and isinstance(wanted.value, str)):
                raise Unread(f"{where}: getattr of a name that is known only as it runs")
            self._found.attributes.add(wanted.value)
            name = wanted.value
        for each in call.keywords:
            if each.arg == "out" and self._lives_on(_root(each.value)):
                raise Doubt(f"{where}: writes to {ast.unparse(each.value)}, which lives on")
        if isinstance(call.func, ast.Name) and name == "open" and _writes(call):
            raise Doubt(f"{where}: open for writing, or in a mode that is known only as it runs")
        if isinstance(call.func, ast.Name) and call.func.id != "getattr":
            return  # what it stands for is looked at
        root = _root(call.func)
        value = call.func.value if isinstance(call.func, ast.Attribute) else None
        direct = isinstance(value, ast.Name) and root == self._self
        if not direct:
            known.doubt_call(name, where)
        changes = known.changes_its_own(name) and not direct
        if changes and self._lives_on(root) and not self._is_in_a_module(call.func):
            raise Doubt(f"{where}: {ast.unparse(call.func)} changes what lives on")

    def _is_in_a_module(self, function: ast.expr) -> bool:
        """As ``np.sort``, which gives another array; what it stands for is looked at."""
        chain = _chain(function)
        if chain is None or (chain[0] in self._locals and chain[0] not in self._imports):
            return False
        holder = self._look_up(chain[0])
        for name in chain[1:-1]:
            holder = _member(holder, name) if isinstance(holder, types.ModuleType) else None
        return isinstance(holder, types.ModuleType)

    def _note_import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            module = alias.name if isinstance(node, ast.Import) else self._module_of(node)
            held = sys.modules.get(module)
            if held is None:
                raise Unread(f"{self._where(node)}: imports {module} as it runs")
            name = alias.asname or alias.name.partition(".")[0]
            if isinstance(node, ast.ImportFrom):
                self._imports[name] = getattr(held, alias.name, MISSING)
            else:
                top = alias.name if alias.asname else alias.name.partition(".")[0]
                self._imports[name] = sys.modules[top]

    def _module_of(self, node: ast.ImportFrom) -> str:
        """In full, where it is named from the package that the function is in."""
        package = str(self._globals.get("__package__") or "").split(".")
        above = package[: len(package) - node.level + 1] if node.level else []
        return ".".join(filter(None, [*above, node.module or ""]))

    def _resolve(self, node: ast.Name | ast.Attribute) -> None:
        """What a name stands for, followed through modules and classes as far as it goes."""
        chain = _chain(node)
        if chain is None or (chain[0] in self._locals and chain[0] not in self._imports):
            return
        value, outside = self._look_up(chain[0]), None
        if value is MISSING:
            raise Unread(f"{self._where(node)}: {chain[0]} is not known yet")
        if chain[0] in self._cells or chain[0] in self._globals:
            holder = self._cells if chain[0] in self._cells else self._globals
            outside = Outside(holder, chain[0])
        for name in chain[1:]:
            if not isinstance(value, types.ModuleType | type):
                break
            if isinstance(value, types.ModuleType):
                self._found.objects.append((value, self._where(node)))
            outside = Outside(value if isinstance(value, type) else vars(value), name)
            value = _member(value, name)
        if outside is not None and _is_data(value):
            self._found.outside.append(outside)
        self._found.objects.append((value, self._where(node)))

    def _look_up(self, name: str) -> Any:
        for scope in (self._imports, self._cells, self._globals, vars(builtins)):
            if name in scope:
                if scope is vars(builtins) and name in known.FORBIDDEN_BUILTINS:
                    raise Unread(f"{self._file}:{self._tree.lineno}: uses {name}")
                return scope[name]
        return MISSING


def _inside(tree: Function) -> Iterator[ast.AST]:
    """Its parameters' defaults were computed when it was made, and its annotations are words."""
    for statement in tree.body if isinstance(tree.body, list) else [tree.body]:
        yield from ast.walk(statement)


def _bound_in(tree: Function) -> set[str | None]:
    """All names that are bound in it, or in functions inside it."""
    found: set[str | None] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, NAMED):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name.partition(".")[0])
    return found


def _chain(node: ast.expr) -> list[str] | None:
    """``a.b.c`` as its names; None where it does not begin with a name."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else None


def _root(node: ast.expr, *, through_calls: bool = False) -> str | None:
    while True:
        if isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
            node = node.value
        elif through_calls and isinstance(node, ast.Call):
            node = node.func  # what it gives may live on, as ``type(self)``
        else:
            break
    return node.id if isinstance(node, ast.Name) else None


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _member(value: Any, name: str) -> Any:
    if isinstance(value, type):
        return inspect.getattr_static(value, name, None)
    return getattr(value, name, None)


def _is_data(value: Any) -> bool:
    kinds = (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType)
    return type(value) in PLAIN or not isinstance(value, kinds)


def _asks_for(test: ast.expr, name: str) -> bool:
    """Whether a condition is about whether this is there."""
    attribute = name.rpartition(".")[2]
    return any(
        (isinstance(node, ast.Attribute) and ast.unparse(node) == name)
        or (isinstance(node, ast.Constant) and node.value == attribute)
        for node in ast.walk(test)
    )


def _writes(call: ast.Call) -> bool:
    given = [each.value for each in call.keywords if each.arg == "mode"] + call.args[1:2]
    if not given:
        return False
    mode = given[0]
    return not (isinstance(mode, ast.Constant) and set(str(mode.value)) <= set("rbt"))
