"""The outline of a file, gathered in a single traversal."""

import ast
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from hasten.scan.nodes import PARTS, parts_of
from hasten.scan.outline import (
    COMPREHENSIONS,
    STEPS,
    Binding,
    Block,
    Class,
    Comprehension,
    Function,
    How,
    Loop,
    LoopNode,
    Outline,
    Site,
)


class Wanted:
    """What rules want to look at; made once for all files."""

    def __init__(
        self,
        calls: Iterable[str],
        nodes: Iterable[type[ast.AST]],
        writes: Iterable[str] = (),
    ) -> None:
        self.calls, self.nodes, self.writes = frozenset(calls), frozenset(nodes), frozenset(writes)
        self.endings = tuple(sorted(each[1:] for each in self.calls if each[:1] == "*"))


def outline(
    tree: ast.Module,
    calls: Iterable[str],
    nodes: Iterable[type[ast.AST]],
    writes: Iterable[str] = (),
) -> Outline:
    return outline_for(Wanted(calls, nodes, writes), tree)


def outline_for(wanted: Wanted, tree: ast.Module) -> Outline:
    reader = _Reader(tree, wanted)
    reader.read()
    return reader.found


class _Reader:
    def __init__(self, tree: ast.Module, wanted: Wanted) -> None:
        self._wanted_calls, self._wanted_endings = wanted.calls, wanted.endings
        self._wanted_nodes, self._wanted_writes = wanted.nodes, wanted.writes
        self.found = Outline(tree)
        self._noted = self.found.nodes
        self._function = Function("", "", tree, None, None)
        self.found.functions.append(self._function)
        self._class: Class | None = None
        self._loop: Loop | None = None
        self._block: Block | None = None
        self._statement: ast.stmt = ast.Pass()
        self._within_lines: tuple[int, int] | None = None

    def read(self) -> None:
        self._body(self.found.tree.body)

    def _body(self, statements: list[ast.stmt]) -> None:
        wanted = self._wanted_nodes
        for statement in statements:
            handle = _STATEMENTS.get(statement.__class__)
            self._statement = statement
            if statement.__class__ in wanted:
                self._note(statement, statement)
            if handle is not None:
                handle(self, statement)
            else:
                self._expressions(statement, statement)

    # Statements with a body of their own

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for each in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults):
            if each is not None:
                self._expression(each, node)
        within = self._class.name if self._class is not None else self._function.name
        name = f"{within}.{node.name}" if within else node.name
        owner = self._class or self._function.owner
        function = Function(name, node.name, node, self._function, owner)
        if self._class is not None:
            self._class.methods.setdefault(node.name, function)
        else:
            self._function.bindings.setdefault(node.name, []).append(Binding(node.lineno, None))
        self.found.functions.append(function)
        self.found.named.setdefault(name, function)
        arguments = node.args
        for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            function.parameters[parameter.arg] = parameter
        self._within(function, node.body)

    def _within(self, function: Function, body: list[ast.stmt]) -> None:
        kept = self._function, self._class, self._loop, self._block
        self._function, self._class, self._loop, self._block = function, None, None, None
        self._body(body)
        self._function, self._class, self._loop, self._block = kept

    def _define_class(self, node: ast.ClassDef) -> None:
        for each in (*node.decorator_list, *node.bases, *(word.value for word in node.keywords)):
            self._expression(each, node)
        bases = tuple(filter(None, map(self.found.dotted, map(_bare_base, node.bases))))
        own = (self.found.classes.get(each) for each in bases)
        above = chain.from_iterable(each.lineage for each in own if each is not None)
        kept, self._class = self._class, Class(node.name, node, bases, (*bases, *above))
        self.found.all_classes.append(self._class)
        self.found.classes.setdefault(node.name, self._class)
        self._body(node.body)
        self._class = kept

    def _repeat(self, node: ast.For | ast.AsyncFor) -> None:
        self._expression(node.iter, node)
        self._bind(node.target, node.iter, "loop")
        self._enter_loop(node, node.body)
        self._enter(node, "orelse", node.orelse)

    def _repeat_while(self, node: ast.While) -> None:
        loop = self._begin_loop(node)
        self._expression(node.test, node)
        self._end_loop(loop)
        self._enter_loop(node, node.body, loop)
        self._enter(node, "orelse", node.orelse)

    def _begin_loop(self, node: LoopNode) -> Loop:
        self._loop = Loop(node, self._loop, self._function)
        self._loop.first_call = len(self._function.calls)
        self._function.loops.append(self._loop)
        return self._loop

    def _end_loop(self, loop: Loop) -> None:
        loop.end_call = len(self._function.calls)
        self._loop = loop.outer

    def _enter_loop(
        self,
        node: ast.For | ast.AsyncFor | ast.While,
        body: list[ast.stmt],
        loop: Loop | None = None,
    ) -> None:
        if loop is None:
            loop = self._begin_loop(node)
        else:
            self._loop = loop
        self._enter(node, "body", body)
        self._end_loop(loop)

    def _enter(self, node: ast.AST, branch: str, body: list[ast.stmt]) -> None:
        if body:
            self._block = Block(node, self._block, branch)
            self._body(body)
            self._block = self._block.parent

    def _branch(self, node: ast.If) -> None:
        """An "elif" is an "if" in an "else": a long row of them must not be a deep one of calls."""
        kept = self._block
        self._expression(node.test, node)
        self._enter(node, "body", node.body)
        while len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
            self._block = Block(node, self._block, "orelse")
            node = self._statement = node.orelse[0]
            if ast.If in self._wanted_nodes:
                self._note(node, node)
            self._expression(node.test, node)
            self._enter(node, "body", node.body)
        self._enter(node, "orelse", node.orelse)
        self._block = kept

    def _manage(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self._expression(item.context_expr, node)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, item.context_expr, "with")
        self._enter(node, "body", node.body)

    def _attempt(self, node: ast.Try) -> None:
        self._enter(node, "body", node.body)
        for handler in node.handlers:
            self._enter(handler, "body", handler.body)
        self._enter(node, "orelse", node.orelse)
        self._enter(node, "finalbody", node.finalbody)

    def _match(self, node: ast.Match) -> None:
        self._expression(node.subject, node)
        for case in node.cases:
            self._enter(case, "body", case.body)

    # Statements that bind names

    def _assign(self, node: ast.Assign) -> None:
        self._expression(node.value, node)
        for target in node.targets:
            self._bind(target, node.value, "value")

    def _assign_typed(self, node: ast.AnnAssign) -> None:
        target, said = node.target, node.annotation
        if node.value is not None:
            self._expression(node.value, node)
            self._bind(target, node.value, "value", said=said)
        if self._class is not None and isinstance(target, ast.Name):
            self._class.said.setdefault(target.id, said)

    def _assign_changed(self, node: ast.AugAssign) -> None:
        self._expression(node.value, node)
        self._bind(node.target, node.value, "changed")

    def _import(self, node: ast.Import) -> None:
        for each in node.names:
            if each.asname:
                self.found.imports[each.asname] = each.name

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = "." * node.level + (node.module or "")
        for each in node.names:
            dot = "" if module.endswith(".") or not module else "."
            self.found.imports[each.asname or each.name] = f"{module}{dot}{each.name}"

    def _evaluate(self, node: ast.Expr) -> None:
        self._expression(node.value, node)

    def _return(self, node: ast.Return) -> None:
        if node.value is not None:
            self._function.returns.append(node.value)
            self._expression(node.value, node)

    def _bind(
        self,
        target: ast.expr,
        value: ast.expr | None,
        how: How,
        path: tuple[int, ...] = (),
        said: ast.expr | None = None,
    ) -> None:
        if isinstance(target, ast.Name):
            binding = Binding(
                _last_line(target, value, how), value, how, path, self._within_lines, said
            )
            given = self._function.bindings
            if target.id in given:
                given[target.id].append(binding)
            else:
                given[target.id] = [binding]
        elif isinstance(target, ast.Tuple | ast.List):
            values = value.elts if isinstance(value, ast.Tuple | ast.List) else None
            alike = values is not None and len(values) == len(target.elts) and how == "value"
            for number, each in enumerate(target.elts):
                if alike and values is not None:
                    self._bind(each, values[number], how)
                else:
                    self._bind(each, value, "loop" if how == "loop" else "item", (*path, number))
        elif isinstance(target, ast.Attribute):
            if target.attr in self._wanted_writes:
                statement = self._statement
                site = Site(target, statement, statement, self._function, self._loop, self._block)
                self.found.writes.setdefault(target.attr, []).append(site)
            owner = self._function.owner
            if (
                owner is not None
                and isinstance(target.value, ast.Name)
                and target.value.id == "self"
            ):
                binding = Binding(target.lineno, value, how, path, said=said)
                owner.attributes.setdefault(target.attr, []).append((binding, self._function))
            self._expression(target.value, self._statement)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, value, "item", path)
        else:
            self._expression(target, self._statement)

    # Expressions

    def _expressions(self, node: ast.AST, parent: ast.AST) -> None:
        for child in parts_of(node):
            if isinstance(child, ast.expr):
                self._expression(child, parent)
            elif isinstance(child, ast.stmt):
                self._body([child])
            else:
                self._expressions(child, parent)

    def _expression(self, root: ast.expr, parent: ast.AST) -> None:
        """With a stack of its own: expressions are nested deeper than calls may be."""
        if root.__class__ in _LEAVES:
            return
        wanted, leaves = self._wanted_nodes, _LEAVES
        stack: list[tuple[Any, ast.AST]] = [(root, parent)]
        while stack:
            node, parent = stack.pop()
            kind = node.__class__
            if kind in wanted:
                self._note(node, parent)
            if kind is ast.Call:
                self._call(node, parent, stack)
            elif kind is ast.Attribute:
                if node.value.__class__ not in leaves:
                    stack.append((node.value, node))
            elif kind in _COMPREHENDS:
                self._comprehend(node)
            elif kind is ast.Lambda:
                self._lambda(node)
            else:
                for name in _PARTS[kind]:
                    value = getattr(node, name)
                    if value.__class__ is list:
                        for each in value:
                            if each.__class__ not in leaves:
                                stack.append((each, node))
                    elif value.__class__ not in leaves:
                        stack.append((value, node))
                if kind is ast.NamedExpr:
                    self._bind(node.target, node.value, "value")
                elif kind is ast.Yield or kind is ast.YieldFrom:
                    self._function.is_generator = True

    def _call(self, node: ast.Call, parent: ast.AST, stack: list[tuple[Any, ast.AST]]) -> None:
        function: Any = node.func
        kind, leaves = function.__class__, _LEAVES
        if kind is ast.Attribute:
            name = function.attr
            if function.value.__class__ not in leaves:
                stack.append((function.value, function))
        elif kind is ast.Name:
            name = function.id
        else:
            name = ""
            stack.append((function, node))
        within, loop = self._function, self._loop
        site = Site(node, parent, self._statement, within, loop, self._block, name)
        within.calls.append(site)
        within.called.add(name)
        if name in self._wanted_calls:
            self.found.calls.setdefault(name, []).append(site)
        if name.endswith(self._wanted_endings):
            self._note_ending(name, site)
        if name == "register_buffer":
            self._note_buffer(node)
        if loop is not None:
            loop.calls.append(site)
            if name in STEPS:
                loop.has_backward = True
        for each in node.args:
            if each.__class__ not in leaves:
                stack.append((each, node))
        for word in node.keywords:
            if word.value.__class__ not in leaves:
                stack.append((word.value, node))

    def _note_buffer(self, node: ast.Call) -> None:
        """``self.register_buffer("table", ...)`` gives ``self.table`` a value."""
        owner = self._function.owner
        match node.func, node.args:
            case ast.Attribute(value=ast.Name(id="self")), [ast.Constant(value=str(name)), _, *_]:
                if owner is not None:
                    given = Binding(node.end_lineno or node.lineno, node), self._function
                    owner.attributes.setdefault(name, []).append(given)

    def _note_ending(self, name: str, site: Site) -> None:
        for each in self._wanted_endings:
            if name.endswith(each):
                self.found.calls.setdefault(f"*{each}", []).append(site)

    def _comprehend(self, node: Comprehension) -> None:
        first = node.generators[0]
        self._expression(first.iter, node)
        loop = self._begin_loop(node)
        self._block = Block(node, self._block, "body")
        for number, each in enumerate(node.generators):
            self._within_lines = _lines(node)
            self._bind(each.target, each.iter, "loop")
            self._within_lines = None
            if number:
                self._expression(each.iter, node)
            for condition in each.ifs:
                self._expression(condition, node)
        if isinstance(node, ast.DictComp):
            self._expression(node.key, node)
            self._expression(node.value, node)
        else:
            self._expression(node.elt, node)
        self._block = self._block.parent
        self._end_loop(loop)

    def _lambda(self, node: ast.Lambda) -> None:
        """As a part of the function that it stands in, where it mostly runs."""
        for each in (*node.args.args, *node.args.kwonlyargs):
            binding = Binding(node.lineno, None, within=_lines(node))
            self._function.bindings.setdefault(each.arg, []).append(binding)
        self._expression(node.body, node)

    def _note(self, node: ast.AST, parent: ast.AST) -> None:
        site = Site(node, parent, self._statement, self._function, self._loop, self._block)
        kind, noted = node.__class__, self._noted
        if kind in noted:
            noted[kind].append(site)
        else:
            noted[kind] = [site]


def _lines(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.end_lineno or node.lineno


def _bare_base(node: ast.expr) -> ast.expr:
    """``Dataset`` of ``Dataset[Sample]``."""
    return node.value if isinstance(node, ast.Subscript) else node


def _last_line(target: ast.Name, value: ast.expr | None, how: How) -> int:
    if value is None or how in ("loop", "with"):
        return target.lineno
    return value.end_lineno or target.lineno


_COMPREHENDS = frozenset(COMPREHENSIONS)
_LEAVES = frozenset((ast.Name, ast.Constant, type(None)))
"""In which nothing else stands; the key of ``**more`` in a dict is None."""
_PARTS = {
    kind: tuple(each for each in parts if each not in ("op", "ops"))
    for kind, parts in PARTS.items()
}
"""Where expressions stand in others."""
_STATEMENTS: dict[type[ast.stmt], Callable[[_Reader, Any], None]] = {
    ast.FunctionDef: _Reader._define,
    ast.AsyncFunctionDef: _Reader._define,
    ast.ClassDef: _Reader._define_class,
    ast.For: _Reader._repeat,
    ast.AsyncFor: _Reader._repeat,
    ast.While: _Reader._repeat_while,
    ast.If: _Reader._branch,
    ast.With: _Reader._manage,
    ast.AsyncWith: _Reader._manage,
    ast.Try: _Reader._attempt,
    ast.TryStar: _Reader._attempt,
    ast.Match: _Reader._match,
    ast.Assign: _Reader._assign,
    ast.AnnAssign: _Reader._assign_typed,
    ast.AugAssign: _Reader._assign_changed,
    ast.Import: _Reader._import,
    ast.ImportFrom: _Reader._import_from,
    ast.Return: _Reader._return,
    ast.Expr: _Reader._evaluate,
}
