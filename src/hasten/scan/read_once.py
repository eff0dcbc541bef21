"""The fix for numbers that a loop reads from the device in every step, to add them up or to keep
them: they stay on the device, and are read once, after the loop.

The same numbers come of it to the bit. It is done only where nobody can see the difference: inside
the loop the name is used for nothing else, and whatever comes after the loop finds numbers again.
"""

import ast

from hasten.records.scan import Fix
from hasten.scan.clocks import TELLS_ELSE, reads_clock
from hasten.scan.heat import Heat
from hasten.scan.kept_list import keep_all
from hasten.scan.look import Look
from hasten.scan.outline import Loop, Site
from hasten.scan.reads import before_copies
from hasten.scan.summed import sum_up
from hasten.scan.usage import Usage


def read_after_loop(site: Site, look: Look) -> Fix | None:
    """Of ``x.item()``. None where it is not sure that nothing else changes."""
    name = _name_of(site.statement)
    loop = _loop_of_steps(site, look) if name is not None else None
    if name is None or loop is None:
        return None
    usage = Usage(name, loop, site.block, look)
    if not look.value(before_copies(site.node), site).is_tensor or not usage.is_hidden():
        return None
    make = sum_up if isinstance(site.statement, ast.AugAssign) else keep_all
    fix = make(site, usage, look)
    return fix if fix is None or not reads_clock(loop, look) else _unsafe(fix)


def _unsafe(fix: Fix) -> Fix:
    """Since the loop has waited for what it times."""
    if fix.safety == "display":
        return fix
    return Fix(
        safety="unsafe", about=f"{fix.about} Without the wait {TELLS_ELSE}.", edits=fix.edits
    )


def _name_of(statement: ast.stmt) -> str | None:
    """``total`` of ``total += ...``, ``losses`` of ``losses.append(...)``."""
    match statement:
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add()):
            return name
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"))):
            return name
    return None


def _loop_of_steps(site: Site, look: Look) -> Loop | None:
    """The outermost that runs every step: what follows it runs once an epoch at most."""
    found = None
    for loop in look.loops(site):
        if not isinstance(loop.node, ast.For | ast.While):
            return None
        if (look.heats.kind_of(loop) or Heat.ONCE) >= Heat.STEP:
            found = loop
    return found
