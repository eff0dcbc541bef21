"""The same table normalized again for every chunk."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import is_bound_in, last_name

SIMILARITIES = (
    "cos_sim", "cosine_similarity", "pairwise_cosine_similarity", "pytorch_cos_sim", "cosine_sim",
    "score_function", "similarity_fn", "sim_fn",
)  # fmt: skip


class NormalizedAgain(Rule):
    code = "HST422"
    name = "normalized-for-every-chunk"
    why = "A cosine similarity normalizes both sides; the side that stays is normalized every time."
    instead = "Normalize once before the loop and take plain dot products inside of it."
    risk = "rounding: sums are taken in another order"
    calls = SIMILARITIES
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def search(queries, corpus, cos_sim, size):
    found = []
    for start in range(0, len(queries), size):
        found.append(cos_sim(queries[start : start + size], corpus))  # !
    return found
""",
        """\
import torch

def search(queries, corpus, cos_sim, pairs):
    for one, other in pairs:
        cos_sim(one, other)
    return cos_sim(queries, corpus)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        loop = site.loop
        if loop is None or not any(_counts_chunks(each) for each in loop.outwards()):
            return
        if sum(_is_chunk_or_whole(each, loop) for each in site.node.args[:2]) == 2:
            yield Found(site.node, f"`{site.called}` normalizes the same again")


def _counts_chunks(loop: Loop) -> bool:
    """``range(0, n, size)``."""
    over = loop.header()[1]
    return (
        isinstance(over, ast.Call) and bool(RANGE.search(called_name(over))) and len(over.args) == 3
    )


RANGE = re.compile(r"range$")


def _is_chunk_or_whole(node: ast.expr, loop: Loop) -> bool:
    """A slice of what the loop leaves alone, or all of it."""
    held = node.value if isinstance(node, ast.Subscript) else node
    return bool(last_name(held)) and not is_bound_in(last_name(held), loop)
