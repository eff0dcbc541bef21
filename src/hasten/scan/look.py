"""What a rule may ask about a place in a file."""

import ast
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from hasten.scan.heat import Heats, Local
from hasten.scan.outline import Function, Loop, Outline, Site
from hasten.scan.values import Value, Values

NO_GRAD = ("no_grad", "inference_mode")
RARELY = re.compile(
    r"log|print|verbose|debug|save|report|eval|valid|every|interval|freq|period|display|plot"
    r"|is_main|rank|first|profil|warn",
    re.IGNORECASE,
)


class Look:
    def __init__(self, outline: Outline, text: str) -> None:
        self.outline = outline
        self.text = text
        self.values = Values(outline)
        self.heats = Heats(outline, self.values)

    def value(self, node: ast.AST | None, site: Site) -> Value:
        """What an expression of the place's function is."""
        return self.values.of(node, site.function)

    def dotted(self, node: ast.AST) -> str:
        return self.outline.dotted(node)

    @cached_property
    def lines(self) -> list[str]:
        """As Python counts them: a form feed ends none."""
        return self.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")

    def source(self, node: Any) -> str:
        """The text of an expression, on one line. Columns of a tree are in bytes."""
        part = [line.encode() for line in self.lines[node.lineno - 1 : node.end_lineno]]
        part[-1] = part[-1][: node.end_col_offset]
        part[0] = part[0][node.col_offset :]
        return " ".join(b" ".join(part).decode().split())

    def column(self, node: Any) -> int:
        """In characters, from 1."""
        before = self.lines[node.lineno - 1].encode()[: node.col_offset]
        return len(before.decode()) + 1

    def local(self, site: Site) -> Local:
        return self.heats.local(site)

    def loops(self, site: Site) -> Iterator[Loop]:
        """Of the place's function, from the inside."""
        return site.loop.outwards() if site.loop is not None else iter(())

    def is_rare(self, site: Site) -> bool:
        """Whether an ``if`` lets it run only now and then: every so many steps, or to log; also
        whether it only prepares an error."""
        if isinstance(site.statement, ast.Raise | ast.Assert):
            return isinstance(site.statement, ast.Raise)
        if site.block is None:
            return False
        inner = site.loop.node if site.loop is not None else None
        for block in site.block.outwards():
            if block.node is inner:
                return False
            if isinstance(block.node, ast.ExceptHandler):
                return True
            if (
                isinstance(block.node, ast.If)
                and block.branch == "body"
                and self._is_seldom(block.node.test)
            ):
                return True
        return False

    def _is_seldom(self, test: ast.expr) -> bool:
        for each in ast.walk(test):
            if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mod):
                return True
            name = (
                each.id
                if isinstance(each, ast.Name)
                else each.attr
                if isinstance(each, ast.Attribute)
                else ""
            )
            if name and RARELY.search(name):
                return True
        return False

    def without_grad(self, site: Site) -> bool:
        """Whether no gradient is recorded there, as far as the function itself tells."""
        function: Function | None = site.function
        while function is not None:
            decorators = getattr(function.node, "decorator_list", [])
            if any(self._says_no_grad(each) for each in decorators):
                return True
            function = function.parent
        for block in site.block.outwards() if site.block is not None else ():
            if isinstance(block.node, ast.With) and any(
                self._says_no_grad(item.context_expr) for item in block.node.items
            ):
                return True
        return False

    def _says_no_grad(self, node: ast.expr) -> bool:
        called = node.func if isinstance(node, ast.Call) else node
        return self.dotted(called).rpartition(".")[2] in NO_GRAD


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((word.value for word in call.keywords if word.arg == name), None)


def argument(call: ast.Call, place: int, name: str) -> ast.expr | None:
    """Given by place or by name."""
    return call.args[place] if len(call.args) > place else keyword(call, name)


def is_constant(node: ast.AST | None, value: object) -> bool:
    return (
        isinstance(node, ast.Constant) and node.value == value and type(node.value) is type(value)
    )


def receiver(call: ast.Call) -> ast.expr | None:
    """``x`` of ``x.item()``."""
    return call.func.value if isinstance(call.func, ast.Attribute) else None
