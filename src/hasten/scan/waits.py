"""What else makes a loop wait: while that is left, it gains nothing to remove its other waits."""

import ast

from hasten.records.scan import Fix
from hasten.scan.look import Look, called_name, receiver
from hasten.scan.outline import Loop, Site
from hasten.scan.reads import before_copies

COPIES = ("cpu", "tolist", "numpy")
ON_HOST = ("array", "frame", "number")


def in_vain(fix: Fix | None) -> Fix | None:
    """As it is told where it is not made."""
    if fix is None or fix.safety == "display":
        return fix
    return Fix(safety="display", about=f"{fix.about} First remove what else the loop waits for.")


def may_wait_besides(loop: Loop, look: Look) -> bool:
    """Whether it copies something to the host in every turn, spoken of or not. What is read with
    ``.item()`` is spoken of."""
    calls = [each for each in loop.function.calls if loop.holds(each.node.lineno)]
    read = {id(part) for each in calls for part in _parts_of_read(each.node)}
    return any(_may_wait(each, look) for each in calls if id(each.node) not in read)


def _parts_of_read(call: ast.Call) -> list[ast.Call]:
    """All calls of ``x.detach().cpu().item()``."""
    parts: list[ast.Call] = []
    node: ast.expr | None = call if called_name(call) == "item" else None
    while isinstance(node, ast.Call):
        parts.append(node)
        node = receiver(node)
    return parts


def _may_wait(site: Site, look: Look) -> bool:
    held = receiver(site.node)
    if held is None or called_name(site.node) not in COPIES or look.is_rare(site):
        return False
    value = look.value(before_copies(held), site)
    return value.kind not in ON_HOST and value.where != "host"
