"""How a loop uses a name of its function, and who else could see what the name holds meanwhile."""

import ast
import re
from collections.abc import Iterator
from functools import cached_property

from hasten.scan.look import Look
from hasten.scan.nodes import walk
from hasten.scan.outline import Binding, Block, Function, Loop

Above = tuple[ast.AST, ...]
"""What a node stands in, the outermost first."""
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
SEES_ALL_NAMES = re.compile(r"(?<![\w.])(locals|vars|globals|eval|exec)\(")


class Usage:
    """Of ``name`` in ``loop``; ``block`` is the innermost of some place in the loop."""

    def __init__(self, name: str, loop: Loop, block: Block | None, look: Look) -> None:
        self.name, self.loop, self._block, self._look = name, loop, block, look

    @property
    def _function(self) -> Function:
        return self.loop.function

    @cached_property
    def inside(self) -> list[tuple[ast.Name, Above]]:
        """Where the name stands in the loop."""
        return list(occurrences(self.loop.node, self.name))

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

    def first_values(self) -> list[ast.expr | None]:
        """What it is given before the loop; nothing where that is not sure."""
        if any(each.how != "value" for each in self._before):
            return []
        end = self.loop.node.end_lineno or self.loop.line
        bindings = self._function.bindings.get(self.name, [])
        if self.comes_round and any(each.line > end for each in bindings):
            return []
        return [each.value for each in self._before]


def occurrences(root: ast.AST, name: str) -> Iterator[tuple[ast.Name, Above]]:
    """With a stack of its own: expressions are nested deeper than calls may be."""
    stack: list[tuple[ast.AST, Above]] = [(root, ())]
    while stack:
        node, above = stack.pop()
        if isinstance(node, ast.Name):
            if node.id == name:
                yield node, above
        else:
            inner = (*above, node)
            stack += [(child, inner) for child in ast.iter_child_nodes(node)]
