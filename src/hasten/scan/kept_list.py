"""The fix for a list that a loop appends a number to in every step: the tensors are kept in a list
of their own, and the numbers are read from them after the loop.

The list itself holds nothing but numbers at any time, as whoever annotated it said.
"""

import ast
import re
from collections.abc import Iterator

from hasten.records.scan import Edit, Fix, Safety
from hasten.scan.annotated import annotation_of
from hasten.scan.devices import may_be_several
from hasten.scan.edits import (
    fix_of,
    insert_line_after,
    insert_line_before,
    replace_methods,
    starts_of,
)
from hasten.scan.look import Look, is_own_attribute
from hasten.scan.nodes import walk
from hasten.scan.outline import Loop, Site
from hasten.scan.own_memory import keeps_its_numbers
from hasten.scan.reads import before_copies, detached, holds, is_read
from hasten.scan.scalars import is_scalar
from hasten.scan.trace import last_name
from hasten.scan.usage import Above, Usage

COUNTERS = ("range", "trange", "count", "arange", "cycle", "repeat")
SHOWN = re.compile(r"\[-\w+\](?=\s*[:}])")
BY_HAND = (
    "Keep the tensors in a list of their own and read them after the loop. The loop also looks at"
    " `{}`, which has something in it before: count the steps apart."
)


def keep_all(site: Site, usage: Usage, look: Look) -> Fix | None:
    """Of ``losses.append(loss.item())``."""
    match site.statement:
        case ast.Expr(value=ast.Call(args=[only])) if only is site.node:
            first = usage.first_values()
        case _:
            return None
    if not first or not all(map(_is_empty_list, first)) or usage.has_other_names():
        return None
    if holds(before_copies(site.node)) != "float":
        return None
    if not all(_leaves_items_alone(above, look) for _, above in usage.inside):
        return None
    if not usage.starts_anew and not all(_is_append(above) for _, above in usage.inside):
        return Fix(safety="display", about=BY_HAND.format(usage.name))
    return _read_from_another(site, usage, look)


def _read_from_another(site: Site, usage: Usage, look: Look) -> Fix | None:
    name, fresh = usage.name, usage.fresh_name("on_device")
    if fresh is None:
        return None
    safety, about = _safety(usage, look)
    loop = usage.statement
    made = f"{fresh}{_annotation(usage, look)} = []"
    starts = starts_of(look.lines, loop, usage.inside)
    read = _read_at_once(site, usage, fresh, look)
    read = read or f"{name}.extend([float(each) for each in {fresh}])"
    return fix_of(
        safety,
        about,
        _kept(site, usage, look),
        insert_line_before(look.lines, loop, made),
        insert_line_after(look.lines, loop, read),
        *(_renamed(start, usage, fresh, look) for start in starts),
    )


def _read_at_once(site: Site, usage: Usage, fresh: str, look: Look) -> str:
    """By one copy, where all are seen to have no dims and to lie on one device; else empty."""
    torch = look.outline.name_of("torch")
    start = look.lines.start(usage.statement.body[0])
    indentation = look.lines.indentation(start)
    kept = [before_copies(each) for _, above in usage.inside for each in _appended(above)]
    if torch is None or indentation is None or may_be_several(kept, usage.loop, site, look):
        return ""
    if not all(is_scalar(each, usage.loop, site, look) for each in kept):
        return ""
    read = f"{usage.name} += {torch}.stack({fresh}).tolist()"
    return f"if {fresh}:{look.lines.newline(start)}{indentation}{read}"


def _renamed(start: int | None, usage: Usage, fresh: str, look: Look) -> Edit | None:
    """``{float(losses_on_device[-1]):.3f}`` of ``{losses[-1]:.3f}``: a tensor of shape (1,) has no
    such format."""
    if start is None:
        return None
    end = start + len(usage.name)
    if not look.lines.text[end:].lstrip().startswith("["):
        return look.lines.edit(start, end, fresh)
    shown = SHOWN.match(look.lines.text, end)
    if shown is None:
        return None
    return look.lines.edit(start, shown.end(), f"float({fresh}{shown[0]})")


def _kept(site: Site, usage: Usage, look: Look) -> Edit | None:
    tensor = before_copies(site.node)
    copied = "" if keeps_its_numbers(tensor, usage.loop, site, look) else ".clone()"
    return replace_methods(look.lines, site.node, tensor, f"{detached(site, look)}{copied}")


def _safety(usage: Usage, look: Look) -> tuple[Safety, str]:
    about = f"`{usage.name}` are kept on the device and read after the loop."
    if _has_an_end(usage.loop, look):
        return "safe", about
    return "unsafe", f"{about} Until then each takes 512 bytes there."


def _has_an_end(loop: Loop, look: Look) -> bool:
    """Whether it goes over data; one that counts steps may go on for millions, and what gives
    without end is left when somebody says so."""
    if not isinstance(loop.node, ast.For):
        return False
    over = list(walk(loop.node.iter))
    over += [part for each in over for part in _parts_given(each, loop, look)]
    return not any(last_name(each) in COUNTERS or _gives_forever(each, loop, look) for each in over)


def _parts_given(node: ast.AST, loop: Loop, look: Look) -> Iterator[ast.AST]:
    """Of the call that a name stands for."""
    given = look.values.given(node, loop.function) if isinstance(node, ast.Name) else None
    return walk(given) if isinstance(given, ast.Call) else iter(())


def _gives_forever(node: ast.AST, loop: Loop, look: Look) -> bool:
    """Whether it is a generator of the file, or of the class, that goes round and round."""
    named = look.outline.function_named(look.dotted(node))
    if named is None and is_own_attribute(node) and loop.function.owner is not None:
        named = loop.function.owner.methods.get(last_name(node))
    return (
        named is not None
        and named.is_generator
        and any(
            isinstance(each, ast.While)
            and isinstance(each.test, ast.Constant)
            and bool(each.test.value)
            for each in walk(named.node)
        )
    )


def _annotation(usage: Usage, look: Look) -> str:
    """As the list has one: ``List[torch.Tensor]`` beside ``List[float]``."""
    torch = look.outline.name_of("torch")
    annotation = annotation_of(usage.name, usage.loop.function)
    if annotation is None or torch is None:
        return ""
    return ": " + re.sub(r"\bfloat\b", f"{torch}.Tensor", look.source(annotation))


def _is_empty_list(node: ast.expr | None) -> bool:
    return isinstance(node, ast.List) and not node.elts


def _is_append(above: Above) -> bool:
    return bool(_appended(above))


def _appended(above: Above) -> list[ast.Call]:
    """``x.item()``, where that and no more is appended there."""
    match above[-3:]:
        case [ast.Expr(), ast.Call(func=func, args=[appended]), ast.Attribute(attr="append") as it]:
            return [appended] if func is it and is_read(appended) else []
    return []


def _leaves_items_alone(above: Above, look: Look) -> bool:
    """Whether it makes no difference there what the list holds: ``losses.append``, ``len(losses)``,
    and now and then ``f"{losses[-1]:.3f}"``, which can read it."""
    match above[-1]:
        case ast.Attribute():
            return _is_append(above)
        case ast.Call(func=ast.Name(id="len")):
            return True
        case ast.Subscript(slice=ast.UnaryOp()):
            shown = above[-2]
            return (
                isinstance(shown, ast.FormattedValue)
                and shown.conversion == -1
                and any(isinstance(each, ast.If) and look.is_seldom(each) for each in above)
            )
    return False
