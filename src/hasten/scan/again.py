"""Calls that give what an earlier one has given already."""

import ast
import re

from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Block, Site
from hasten.scan.trace import names
from hasten.scan.vocabulary import words

CHANGES = words("backward step load_state_dict train eval update to cuda")
"""What makes a second run another one."""


def same_above(call: ast.Call, site: Site, look: Look) -> list[Site]:
    """Calls above of the same with the same."""
    name, said = called_name(call), look.source(call)
    return [
        each
        for each in site.function.calls
        if each.node.lineno < call.lineno and each.called == name and look.source(each.node) == said
    ]


def gives_the_same(earlier: Site, site: Site) -> bool:
    """Whether both run, one after the other, with nothing in between that changes the result."""
    if earlier.loop is not site.loop or not _stands_in(earlier.block, site.block):
        return False
    between = range(earlier.statement.lineno, site.node.lineno)
    if any(each.node.lineno in between and each.called in CHANGES for each in site.function.calls):
        return False
    given = {name for each in (*earlier.node.args, earlier.node.func) for name in names(each)}
    return not any(
        each.line in between for name in given for each in site.function.bindings.get(name, ())
    )


def is_written_between(earlier: Site, site: Site, look: Look) -> bool:
    """Whether an attribute that the call reads is given something between, or anything is changed
    in place."""
    first, last = earlier.statement.lineno, site.node.lineno
    lines = "\n".join(look.text.splitlines()[first:last])
    if IN_PLACE.search(lines):
        return True
    read = {each.attr for each in walk(site.node) if isinstance(each, ast.Attribute)}
    return any(re.search(rf"\.{each}\s*(\[.*\]\s*)?[-+*/]?=(?!=)", lines) for each in read)


IN_PLACE = re.compile(r"\w_\(")


def _stands_in(outer: Block | None, inner: Block | None) -> bool:
    """Whether what stands in the one block has run where the other does; ``with`` is no bar."""
    while outer is not None and isinstance(outer.node, ast.With):
        outer = outer.parent
    return outer is None or (
        inner is not None
        and any(
            each.node is outer.node and each.branch == outer.branch for each in inner.outwards()
        )
    )
