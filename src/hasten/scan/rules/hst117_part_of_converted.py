"""All of something converted to take a part of it."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import varies


class PartOfConverted(Rule):
    code = "HST117"
    name = "converted-to-take-a-part"
    why = "Each turn of the loop converts or copies all elements, and keeps some of them."
    instead = "Convert once before the loop, or take the part first: `x[:i].tolist()`."
    effort = "a minute"
    verify = "Compare what both versions give."
    calls = ("tolist", "to_list", "to_numpy")
    least = Heat.ONCE
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
def prefixes(frame, names):
    for i in range(1, len(frame)):
        for name in names:
            yield frame[name].tolist()[:i]  # !
        yield frame.index.to_list()[i]  # !
        yield frame["x"].to_numpy(copy=True)[i]  # !
""",
        """\
def prefixes(frame, names, table):
    for name in names:
        column = frame[name].tolist()
        for i in range(1, len(frame)):
            yield column[:i], frame[name][:i].tolist(), frame[name].to_numpy()[:-1]
    return list(table)[names]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        part = site.parent
        if site.loop is None or not isinstance(part, ast.Subscript) or part.value is not site.node:
            return
        if site.called == "to_numpy" and not _is_place(part.slice, site.loop):
            return
        if not isinstance(part.slice, ast.Constant):
            yield Found(site.node, f"`{look.source(part)}` converts all to take a part, each turn")


def _is_place(node: ast.expr, loop: Loop) -> bool:
    """Whether it is another place each turn; of an array a part is a view."""
    return isinstance(node, ast.Name) and any(varies(node, each) for each in loop.outwards())
