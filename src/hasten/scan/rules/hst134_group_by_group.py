"""Groups of a frame, one at a time."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

PLAIN = ("enumerate", "tqdm", "list", "iter", "track")
"""What a loop's groups may be wrapped in."""


class GroupByGroup(Rule):
    code = "HST134"
    name = "pandas-group-by-group"
    why = (
        "Each group becomes a frame of its own, and what is done with it costs the overhead of"
        " pandas once a group, of which there are often as many as users or keys."
    )
    instead = (
        "Let pandas do all groups at once (`agg`, `transform`, `cumcount`), or sort by the key and"
        " cut the arrays where it changes, as with `np.unique(..., return_index=True)`."
    )
    verify = "Compare what both versions give."
    effort = "an hour"
    calls = ("groupby",)
    least = Heat.ONCE
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import pandas as pd
from tqdm import tqdm

def sequences(frame, rows):
    found = {}
    for user, group in frame.groupby("user"):  # !
        found[user] = group["item"].tolist()
    for _, group in tqdm(rows.sort_values("time").groupby(["user", "day"])):  # !
        found.update(group)
    return found, [len(group) for _, group in frame.groupby("user")]  # !
""",
        """\
import itertools
import pandas as pd

def counts(frame, rows):
    for key, group in itertools.groupby(rows, len):
        print(key, list(group))
    sizes = frame.groupby("user").size()
    for user, items in frame.groupby("user")["item"].agg(list).items():
        print(user, items)
    return sizes
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if look.dotted(site.node.func).startswith("itertools") or receiver(site.node) is None:
            return
        over = _gone_over(site)
        while isinstance(over, ast.Call) and called_name(over) in PLAIN and over.args:
            over = over.args[0]
        if over is not None and over is site.node:
            yield Found(site.node, f"a Python loop over `{look.source(site.node)}`")


def _gone_over(site: Site) -> ast.expr | None:
    """What the loop goes over in whose header the place stands."""
    match site.statement:
        case ast.For(iter=over) if site.node.lineno <= (over.end_lineno or 0):
            return over
    match site.parent:
        case ast.ListComp() | ast.DictComp() | ast.GeneratorExp() | ast.SetComp():
            return site.parent.generators[0].iter
    return None
