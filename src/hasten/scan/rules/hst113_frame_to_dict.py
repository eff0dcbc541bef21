"""A frame that is turned into Python objects."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Severity
from hasten.scan.heat import Heat
from hasten.scan.look import Look, argument, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class FrameToDict(Rule):
    code = "HST113"
    name = "frame-to-python-objects"
    why = (
        "Every cell becomes a Python object of its own: tens of bytes and a call each, and mostly"
        " they are put into arrays again."
    )
    instead = "Take the columns as arrays: `{name: frame[name].to_numpy() for name in frame}`."
    verify = "Compare the arrays of both versions, with their types."
    calls = ("to_dict",)
    least = Heat.ONCE
    severity: ClassVar[Severity | None] = "low"
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
def columns(frame):
    return frame.to_dict("list")  # !

def rows(frame):
    return frame.to_dict(orient="records")  # !
""",
        """\
def settings(config, frame):
    return config.to_dict(), frame["name"].to_dict(), frame.describe().to_dict("index")
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        orient = argument(site.node, 0, "orient")
        read = receiver(site.node)
        if read is None or not isinstance(orient, ast.Constant):
            return
        if orient.value in ("list", "records"):
            yield Found(site.node, f"`{look.source(site.node)}` makes an object of each cell")
