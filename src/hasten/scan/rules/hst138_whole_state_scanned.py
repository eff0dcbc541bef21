"""All that is stored, gone through for each batch."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, is_own_attribute
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class WholeStateScanned(Rule):
    code = "HST138"
    name = "whole-store-scanned-each-batch"
    why = (
        "Each batch compares everything that is stored to find what may be drawn, though little of"
        " it has changed since the last."
    )
    instead = "Keep the places that are valid, and change them where something is added or removed."
    verify = "Compare the places that both versions find."
    effort = "an hour"
    risk = "places that are kept must be changed with the store"
    calls = ("flatnonzero", "nonzero", "argwhere", "where")
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np

class ReplayBuffer:
    def sample(self, size):
        valid = self.lengths > 0
        places = np.flatnonzero(valid)  # !
        done = np.where(self.done)[0]  # !
        near = np.where(np.array(self.kinds) == size)[0]  # !
        return np.random.choice(places, size), done, near
""",
        """\
import numpy as np

class ReplayBuffer:
    def __init__(self, rows):
        self.places = np.flatnonzero(rows)

    def sample(self, size):
        places = np.random.choice(self.places, size)
        late = np.flatnonzero(self.lengths[places] > 3)
        return places, late, np.where(self.done, 0, 1)

    def count(self):
        return np.flatnonzero(self.lengths > 0)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        owner = site.function.owner
        if owner is None or len(site.node.args) != 1 or look.values.is_module(owner):
            return
        scanned = site.node.args[0]
        if isinstance(scanned, ast.Name):
            scanned = look.values.given(scanned, site.function)
        whole = _compared(scanned)
        if not whole or not look.dotted(site.node.func).startswith(("numpy.", "np.")):
            return
        yield Found(site.node, f"`{look.source(site.node)}` goes through all of `{whole}`")


def _compared(node: ast.expr | None) -> str:
    """The name of an attribute of ``self`` that is compared as it is."""
    if isinstance(node, ast.Compare):
        node = node.left
    if called_name(node) in ("array", "asarray") and isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    if isinstance(node, ast.Attribute) and is_own_attribute(node):
        return f"self.{node.attr}"
    return ""
