"""A second copy of the largest tensor of the step."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name

LOGITS = re.compile(r"logit", re.IGNORECASE)
TEMPERATURE = re.compile(r"^_?(temperature|temp|tau)$|_temperature$|_temp$", re.IGNORECASE)
PRODUCTS = ("matmul", "mm", "einsum", "bmm")


class LogitsCopied(Rule):
    code = "HST307"
    name = "logits-copied"
    why = (
        "Scores over all classes or items are the largest tensor of a step; this is one more of it."
    )
    instead = (
        "Scale the small factor before the product (`x / temperature @ table.t()`); mask with"
        " `masked_fill` in the loss, or by its `ignore_index`."
    )
    risk = "rounding: the division happens earlier"
    effort = "a minute"
    calls = ("clone",)
    nodes = (ast.Assign,)
    assigned = (ast.BinOp,)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Loss(torch.nn.Module):
    def forward(self, logits, x, table):
        logits = logits / self.temperature  # !
        scores = torch.matmul(x, table.t()) / self.temperature  # !
        logits = logits.clone()  # !
        return logits, scores
""",
        """\
import torch

class Loss(torch.nn.Module):
    def forward(self, logits, x, table):
        last = logits[:, -1].clone()
        x = x / self.temperature
        probs = logits / logits.sum()
        return last, x @ table.t(), probs
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if isinstance(site.node, ast.Assign):
            if _is_tempered(site.node.value):
                yield Found(site.node, "all scores are copied to divide them by the temperature")
            return
        held = receiver(site.node)
        if isinstance(held, ast.Name) and LOGITS.search(held.id) and _is_assigned(site):
            yield Found(site.statement, f"`{held.id}` is copied whole")


def _is_assigned(site: Site) -> bool:
    return isinstance(site.statement, ast.Assign) and site.statement.value is site.node


def _is_tempered(node: ast.expr) -> bool:
    """``logits / temperature``."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
        return False
    return bool(TEMPERATURE.search(last_name(node.right))) and _is_scores(node.left)


def _is_scores(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    return called_name(node) in PRODUCTS or bool(LOGITS.search(last_name(node)))
