"""What one file says: functions, classes, loops, names, and the places that rules want to look at.

Everything else (what a name is, how often a line runs) is worked out from this on demand, since
few lines are ever asked about.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import Struct

from hasten.scan.nodes import walk

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
LoopNode = ast.For | ast.AsyncFor | ast.While | Comprehension
How = Literal["value", "item", "loop", "with", "changed"]

STEPS = frozenset(("backward", "manual_backward"))
"""Calls that go back through a model."""
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Binding(Struct, eq=False, gc=False):
    """A name that gets a value."""

    line: int
    """The last of the statement: what stands on it and above still sees what was there before."""
    value: ast.expr | None
    how: How = "value"
    """"item": one of those that ``value`` unpacks into; "loop": each of those that it gives."""
    path: tuple[int, ...] = ()
    """Of an item or a loop's target that unpacks: which; of what is unpacked twice both places."""
    within: tuple[int, int] | None = None
    """Lines of the comprehension or lambda that alone sees it."""
    said: ast.expr | None = None
    """Its annotation."""


class Class(Struct, eq=False):
    name: str
    node: ast.ClassDef
    bases: tuple[str, ...]
    """As dotted names, with imports followed."""
    lineage: tuple[str, ...] = ()
    """The bases, and those of the file's own classes among them."""
    methods: dict[str, "Function"] = {}
    attributes: dict[str, list[tuple[Binding, "Function"]]] = {}
    """What ``self.NAME`` is given, and where."""
    said: dict[str, ast.expr] = {}
    """Annotations in the class's own body, as data classes have them."""


class Function(Struct, eq=False):
    name: str
    """Dotted from the module's top: "Trainer.fit"; empty for the module itself."""
    last_name: str
    """The last part of it."""
    node: Scope
    parent: "Function | None"
    owner: Class | None
    """Of a method, and of what is defined within it."""
    bindings: dict[str, list[Binding]] = {}
    parameters: dict[str, ast.arg] = {}
    loops: list["Loop"] = []
    returns: list[ast.expr] = []
    calls: list["Site"] = []
    called: set[str] = set()
    """The last parts of the names of all that it calls."""
    is_generator: bool = False


class Block(Struct, eq=False, gc=False):
    """A statement or comprehension with a body, and what it stands in."""

    node: ast.AST
    parent: "Block | None"
    branch: str
    """The field of ``node`` that the body is: "body", "orelse", "finalbody"."""

    def outwards(self) -> Iterator["Block"]:
        block: Block | None = self
        while block is not None:
            yield block
            block = block.parent


class Loop(Struct, eq=False):
    node: LoopNode
    outer: "Loop | None"
    """Within the same function."""
    function: Function
    calls: list["Site"] = []
    """Of its own body, without loops and functions in it."""
    has_backward: bool = False
    """Whether its own body, without loops and functions in it, calls ``.backward()`` or steps an
    optimizer."""
    first_call: int = 0
    end_call: int = 0
    """Among the calls of its function, which are gathered in the order of the file: those of its
    body and of the loops in it begin there, and end before."""

    @property
    def line(self) -> int:
        return self.node.lineno

    @property
    def is_statement(self) -> bool:
        """And no comprehension."""
        return isinstance(self.node, ast.stmt)

    def header(self) -> tuple[ast.expr | None, ast.expr]:
        """Its target and what it goes over; of a ``while`` no target and its test."""
        if isinstance(self.node, ast.While):
            return None, self.node.test
        if isinstance(self.node, ast.For | ast.AsyncFor):
            return self.node.target, self.node.iter
        first = self.node.generators[0]
        return first.target, first.iter

    def changes(self, node: ast.expr) -> bool:
        """Whether an expression uses a name that each turn gives another value."""
        target, _ = self.header()
        if target is None:
            return False
        names = {each.id for each in walk(target) if isinstance(each, ast.Name)}
        return any(isinstance(each, ast.Name) and each.id in names for each in walk(node))

    def holds(self, line: int) -> bool:
        """Whether a line is one of its header or its body."""
        return self.node.lineno <= line <= (self.node.end_lineno or 0)

    def outwards(self) -> Iterator["Loop"]:
        loop: Loop | None = self
        while loop is not None:
            yield loop
            loop = loop.outer


class Site(Struct, eq=False, gc=False):
    """An expression or statement that a rule looks at, and what it stands in."""

    node: Any
    parent: ast.AST
    """The expression it is part of, or else the statement."""
    statement: ast.stmt
    function: Function
    loop: Loop | None
    """The innermost one of the same function."""
    block: Block | None
    called: str = ""
    """Of a call: ``item`` of ``x.item()``; empty where it calls what another call gives."""


@dataclass(eq=False, slots=True)
class Outline:
    tree: ast.Module
    imports: dict[str, str] = field(default_factory=dict)
    """What a name that was imported stands for, dotted."""
    functions: list[Function] = field(default_factory=list)
    """The module itself first."""
    named: dict[str, Function] = field(default_factory=dict)
    """By their dotted names; the first of each."""
    classes: dict[str, Class] = field(default_factory=dict)
    """By their names; the first of each."""
    all_classes: list[Class] = field(default_factory=list)
    calls: dict[str, list[Site]] = field(default_factory=dict)
    """By the last part of the name that is called, or by "*" and how it ends."""
    nodes: dict[type[ast.AST], list[Site]] = field(default_factory=dict)
    writes: dict[str, list[Site]] = field(default_factory=dict)
    """By the attribute that is set."""

    def function_named(self, name: str) -> Function | None:
        return self.named.get(name)

    def release(self) -> None:
        """Undoes references in circles, so that the tree is gone with the outline: looking for
        garbage in trees takes longer than parsing them."""
        for function in self.functions:
            for loop in function.loops:
                loop.calls.clear()
            function.loops.clear()
            function.calls.clear()
        for owner in self.all_classes:
            owner.methods.clear()
            owner.attributes.clear()

    def name_of(self, module: str) -> str | None:
        """By which the module is known in the whole file."""
        for node in self.tree.body:
            if isinstance(node, ast.Import):
                for each in node.names:
                    if each.name == module:
                        return each.asname or each.name
        return None

    def dotted(self, node: ast.AST) -> str:
        """``F.relu`` as "torch.nn.functional.relu"; empty for what is no plain name."""
        if isinstance(node, ast.Name):
            return self.imports.get(node.id, node.id)
        if not isinstance(node, ast.Attribute):
            return ""
        after, held = "." + node.attr, node.value
        while isinstance(held, ast.Attribute):
            after = f".{held.attr}{after}"
            held = held.value
        if not isinstance(held, ast.Name):
            return ""
        return self.imports.get(held.id, held.id) + after
