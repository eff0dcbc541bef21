"""The fix for numbers that a loop reads from the device in every step, to add them up or to keep
them: they stay on the device, and are read once, after the loop.

Sums are kept in float64, in which Python adds numbers up, and lists hold copies, so that the same
numbers come of it to the bit. It is done only where nobody can see the difference: inside the loop
the name is used for nothing else, and whatever comes after the loop finds numbers again.
"""

import ast
import re
from typing import Literal

from hasten.records.scan import Fix, Safety
from hasten.scan.edits import fix_of, insert_line_after, insert_line_before, replace_methods
from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.nodes import walk
from hasten.scan.outline import Loop, Site
from hasten.scan.usage import Above, Usage

Holds = Literal["int", "float", "unknown"]
COPIES = ("item", "detach", "cpu", "numpy")
REDUCTIONS = ("mean", "sum", "max", "min")
TRUTHS = ("eq", "ne", "gt", "lt", "ge", "le", "isclose")
LOSS = re.compile(r"loss", re.IGNORECASE)
HAS_DOUBLE = re.compile(r"\bcuda\b")
LACKS_DOUBLE = re.compile(r"\b(mps|xpu)\b")


def read_after_loop(site: Site, look: Look) -> Fix | None:
    """Of ``x.item()``. None where it is not sure that nothing else changes."""
    name = _name_of(site.statement)
    loop = _loop_of_steps(site, look) if name is not None else None
    if name is None or loop is None:
        return None
    usage = Usage(name, loop, site.block, look)
    if not look.value(before_copies(site.node), site).is_tensor or not usage.is_hidden():
        return None
    if isinstance(site.statement, ast.AugAssign):
        return _sum_up(site, usage, look)
    return _keep_all(site, usage, look)


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


def _sum_up(site: Site, usage: Usage, look: Look) -> Fix | None:
    read = [_read_in(above[-1], site, look) for _, above in usage.inside]
    if None in read or site.node not in read:
        return None
    kinds = {_holds(before_copies(each)) for each in read if each is not None}
    kind = _kind_of_sum(usage.first_values(), kinds)
    if kind == "unknown":
        return None
    name = usage.name
    about = f"`{name}` is added up on the device and read once, after the loop."
    safety: Safety = "safe"
    if kind == "float" and not _has_double(look):
        about += " It takes float64, which not every device has."
        safety = "unsafe"
    suffix = f"{_detached(site, look)}.double()" if kind == "float" else ""
    return _fix(site, usage, look, suffix, "", f"{name} = {kind}({name})", safety, about)


def _keep_all(site: Site, usage: Usage, look: Look) -> Fix | None:
    appended = site.statement.value.args  # type: ignore[attr-defined]
    first = usage.first_values()
    if appended != [site.node] or not first or not all(map(_is_empty_list, first)):
        return None
    if _holds(before_copies(site.node)) != "float":
        return None
    if not all(_leaves_items_alone(above, look) for _, above in usage.inside):
        return None
    name = usage.name
    about = f"`{name}` stay on the device and are read after the loop."
    safety: Safety = "safe"
    if not _has_an_end(usage.loop.node):
        about += " Until then each takes 512 bytes there."
        safety = "unsafe"
    suffix = f"{_detached(site, look)}.clone()"
    if not usage.comes_round:
        line = f"{name} = [float(each) for each in {name}]"
        return _fix(site, usage, look, suffix, "", line, safety, about)
    known = f"{name}_before"  # what earlier turns have read is not gone through again and again
    if re.search(rf"\b{known}\b", look.text):
        return None
    line = f"{name}[{known}:] = [float(each) for each in {name}[{known}:]]"
    return _fix(site, usage, look, suffix, f"{known} = len({name})", line, safety, about)


def _fix(
    site: Site,
    usage: Usage,
    look: Look,
    suffix: str,
    line_before: str,
    line_after: str,
    safety: Safety,
    about: str,
) -> Fix | None:
    loop: ast.stmt = usage.loop.node  # type: ignore[assignment]
    kept = replace_methods(look.lines, site.node, before_copies(site.node), suffix)
    read = insert_line_after(look.lines, loop, line_after)
    if not line_before:
        return fix_of(safety, about, kept, read)
    return fix_of(safety, about, kept, read, insert_line_before(look.lines, loop, line_before))


def _read_in(statement: ast.AST, site: Site, look: Look) -> ast.Call | None:
    """``x.item()`` of ``total += x.item() * len(x)``."""
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.op, ast.Add):
        return None
    added = statement.value
    while isinstance(added, ast.BinOp) and isinstance(added.op, ast.Mult):
        if _is_number(added.right, site, look):
            added = added.left
        elif _is_number(added.left, site, look):
            added = added.right
        else:
            return None
    match added:
        case ast.Call(func=ast.Attribute(attr="item"), args=[], keywords=[]):
            return added
    return None


def _is_number(node: ast.expr, site: Site, look: Look) -> bool:
    """Which is at hand, and need not be read from a tensor."""
    match node:
        case ast.Constant(value=int() | float()):
            return True
        case ast.Call(func=ast.Name(id="len")):
            return True
        case ast.Call(func=ast.Attribute(attr="size"), args=[_]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
        case ast.Name():
            return look.value(node, site).kind == "number"
    return False


def before_copies(node: ast.expr) -> ast.expr:
    """``loss`` of ``loss.detach().cpu().item()``: which of them waits makes no difference."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr not in COPIES:
            break
        node = node.func.value
    return node


def _holds(node: ast.expr) -> Holds:
    """What numbers a tensor is of: counts of what is true are whole, losses are not."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) if LOSS.search(name):
            return "float"
        case ast.Call(func=ast.Attribute(value=reduced, attr=name)) if name in REDUCTIONS:
            if name == "sum" and _is_truth(reduced) and not node.args and not node.keywords:
                return "int"
            return "float" if _holds(reduced) == "float" else "unknown"
    return "unknown"


def _is_truth(node: ast.expr) -> bool:
    match node:
        case ast.Compare():
            return True
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in TRUTHS
    return False


def _kind_of_sum(first: list[ast.expr | None], added: set[Holds]) -> Holds:
    """Of the number that the sum is at its end."""
    starts = {type(each.value) if isinstance(each, ast.Constant) else None for each in first}
    if starts == {float}:
        return "float"
    if starts == {int} and len(added) == 1:
        return added.pop()
    return "unknown"


def _has_double(look: Look) -> bool:
    """Whether the file speaks of devices that have float64, and of no other."""
    return bool(HAS_DOUBLE.search(look.text)) and not LACKS_DOUBLE.search(look.text)


def _has_an_end(loop: ast.AST) -> bool:
    """Whether it goes over data; one that counts steps may go on for millions."""
    if not isinstance(loop, ast.For):
        return False
    return not any(
        isinstance(each, ast.Name) and each.id in ("range", "trange", "count")
        for each in walk(loop.iter)
    )


def _detached(site: Site, look: Look) -> str:
    return "" if look.without_grad(site) else ".detach()"


def _is_empty_list(node: ast.expr | None) -> bool:
    return isinstance(node, ast.List) and not node.elts


def _leaves_items_alone(above: Above, look: Look) -> bool:
    """Whether it makes no difference there what the list holds: ``losses.append``, ``len(losses)``,
    and now and then ``f"{losses[-1]:.3f}"``, which reads alike of a number and of a tensor."""
    match above[-1]:
        case ast.Attribute(attr="append") | ast.Call(func=ast.Name(id="len")):
            return True
        case ast.Subscript(slice=ast.UnaryOp()):
            shown = above[-2]
            return (
                isinstance(shown, ast.FormattedValue)
                and shown.conversion == -1
                and any(isinstance(each, ast.If) and look.is_seldom(each) for each in above)
            )
    return False
