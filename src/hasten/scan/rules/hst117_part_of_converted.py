"""All of something converted to take a part of it."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class PartOfConverted(Rule):
    code = "HST117"
    name = "converted-to-take-a-part"
    why = "Each turn of the loop makes Python objects of all elements, and keeps some of them."
    instead = "Convert once before the loop, or take the part first: `x[:i].tolist()`."
    effort = "a minute"
    verify = "Compare what both versions give."
    calls = ("tolist", "to_list")
    least = Heat.ONCE
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
def prefixes(frame, names):
    for i in range(1, len(frame)):
        for name in names:
            yield frame[name].tolist()[:i]  # !
        yield frame.index.to_list()[i]  # !
""",
        """\
def prefixes(frame, names, table):
    for name in names:
        column = frame[name].tolist()
        for i in range(1, len(frame)):
            yield column[:i], frame[name][:i].tolist()
    return list(table)[names]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        part = site.parent
        if site.loop is None or not isinstance(part, ast.Subscript) or part.value is not site.node:
            return
        if not isinstance(part.slice, ast.Constant):
            yield Found(site.node, f"`{look.source(part)}` converts all to take a part, each turn")
