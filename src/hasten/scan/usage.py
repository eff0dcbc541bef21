"""How a loop uses a name of its function, and who else could see what the name holds meanwhile."""

import ast
import re
from collections.abc import Iterator
from functools import cached_property

from hasten.scan.look import Look, called_name
from hasten.scan.nodes import parts_of, walk
from hasten.scan.outline import Binding, Block, Function, Loop
from hasten.scan.vocabulary import words

Above = tuple[ast.AST, ...]
"""What a node stands in, the outermost first."""
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
READERS = words(
    "len sum min max sorted list tuple print float str enumerate zip mean average median std"
    " array asarray tensor FloatTensor"
)
"""Functions that do not keep a list that they are given."""
SEES_ALL_NAMES = re.compile(r"(?<![\w.])(locals|vars|globals|eval|exec)\(")


class Usage:
    """Of ``name`` in ``loop``; ``block`` is the innermost of some place in the loop."""

    def __init__(self, name: str, loop: Loop, block: Block | None, look: Look) -> None:
        self.name, self.loop, self._block, self._look = name, loop, block, look

    @property
    def _function(self) -> Function:
        return self.loop.function

    @property
    def statement(self) -> ast.For | ast.AsyncFor | ast.While:
        """The loop itself, which is no comprehension: nothing is added up in one."""
        node = self.loop.node
        assert isinstance(node, ast.For | ast.AsyncFor | ast.While)
        return node

    @cached_property
    def inside(self) -> list[tuple[ast.Name, Above]]:
        """Where the name stands in the loop."""
        return list(occurrences(self.loop.node, self.name))

    def changes(self, node: ast.expr) -> bool:
        """Whether an expression uses a name that the loop gives a value."""
        return any(
            self.loop.holds(binding.line)
            for each in walk(node)
            if isinstance(each, ast.Name)
            for binding in self._function.bindings.get(each.id, ())
        )

    def fresh_name(self, ending: str) -> str | None:
        """For another thing beside it; None where the function has that name already."""
        name = f"{self.name}_{ending}"
        taken = re.search(rf"\b{name}\b", self._look.text_of(self._function))
        return None if taken else name

    def is_hidden(self) -> bool:
        """Whether nobody but the loop itself sees what the name holds while the loop runs, and
        nobody at all where it ends by an error."""
        if self.name in self._function.parameters or SEES_ALL_NAMES.search(self._look.text):
            return False
        if self._is_used_by_other_scopes():
            return False
        return not any(self._survives_errors(each) for each in self._blocks_around())

    def _is_used_by_other_scopes(self) -> bool:
        for each in walk(self._function.node):
            if isinstance(each, ast.Global | ast.Nonlocal) and self.name in each.names:
                return True
        return any(
            isinstance(each, SCOPES)
            for _, above in occurrences(self._function.node, self.name)
            for each in above[1:]
        )

    def _blocks_around(self) -> Iterator[ast.AST]:
        blocks = [each.node for each in self._block.outwards()] if self._block is not None else []
        return iter(blocks[blocks.index(self.loop.node) + 1 :])

    def _survives_errors(self, block: ast.AST) -> bool:
        if isinstance(block, ast.Try | ast.TryStar):
            at_last = (found for each in block.finalbody for found in occurrences(each, self.name))
            return bool(block.handlers) or any(True for _ in at_last)
        return isinstance(block, ast.With) and any(
            "suppress" in self._look.source(item.context_expr) for item in block.items
        )

    @cached_property
    def _before(self) -> list[Binding]:
        bindings = self._function.bindings.get(self.name, [])
        return [each for each in bindings if each.line < self.loop.line]

    @property
    def comes_round(self) -> bool:
        """Whether the loop runs more than once, and finds there what it left."""
        outer = self.loop.outer
        return outer is not None and bool(self._before) and self._before[-1].line < outer.line

    @property
    def starts_anew(self) -> bool:
        """Whether nothing is done with it between what it is given first and the loop."""
        if self.comes_round or not self._before:
            return False
        given = self._before[-1].line
        return not any(given < each.lineno < self.loop.line for each, _ in self._outside)

    @cached_property
    def _outside(self) -> list[tuple[ast.Name, Above]]:
        everywhere = occurrences(self._function.node, self.name)
        return [each for each in everywhere if not self.loop.holds(each[0].lineno)]

    def has_other_names(self) -> bool:
        """Whether what it holds may be reached otherwise while the loop runs, as after
        ``history["loss"] = losses``."""
        *_, outermost = self.loop.outwards()
        return any(
            _gives_away(name, above)
            for name, above in self._outside
            if name.lineno <= (outermost.node.end_lineno or 0)
        )

    def first_values(self) -> list[ast.expr | None]:
        """What it is given before the loop; nothing where that is not sure."""
        if any(each.how != "value" for each in self._before):
            return []
        end = self.loop.node.end_lineno or self.loop.line
        bindings = self._function.bindings.get(self.name, [])
        if self.comes_round and any(each.line > end for each in bindings):
            return []
        return [each.value for each in self._before]


def _gives_away(name: ast.Name, above: Above) -> bool:
    """Whether something else may have it from there on."""
    if not isinstance(name.ctx, ast.Load):
        return _is_given_with_others(above[-1])
    if any(isinstance(each, ast.Return) for each in above):
        return False
    match above[-1]:
        case ast.Attribute() as method:
            return not (isinstance(above[-2], ast.Call) and above[-2].func is method)
        case ast.Subscript() | ast.Compare() | ast.FormattedValue() | ast.For():
            return False
        case ast.If() | ast.While() | ast.UnaryOp() | ast.BinOp() | ast.AugAssign():
            return False
        case ast.Call() as call:
            return called_name(call) not in READERS
    return True


def _is_given_with_others(statement: ast.AST) -> bool:
    """``self.losses = losses = []``, and ``losses := []``, which is the value of more."""
    if isinstance(statement, ast.Assign):
        return len(statement.targets) > 1
    return isinstance(statement, ast.NamedExpr)


def occurrences(root: ast.AST, name: str) -> Iterator[tuple[ast.Name, Above]]:
    """With a stack of its own: expressions are nested deeper than calls may be."""
    stack: list[tuple[ast.AST, Above]] = [(root, ())]
    while stack:
        node, above = stack.pop()
        if isinstance(node, ast.Name):
            if node.id == name:
                yield node, above
        elif below := parts_of(node):
            inner = (*above, node)
            stack += [(each, inner) for each in below if each.__class__ is not ast.Constant]
