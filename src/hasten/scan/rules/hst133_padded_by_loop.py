"""Rows that a Python loop copies into a padded array."""

import ast
from collections.abc import Iterator, Sequence
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import is_start_of_row
from hasten.scan.trace import root_name

FILLS = "] * ("
"""Stands in every file where lists are lengthened."""


class PaddedByLoop(Rule):
    code = "HST133"
    name = "rows-padded-by-loop"
    why = "Each row is a slice and a copy of its own, for every batch again."
    instead = (
        "Use `torch.nn.utils.rnn.pad_sequence`, or join all rows and write them with one mask;"
        " keep rows as tensors so that nothing is converted."
    )
    verify = "Compare the padded batches of both versions."
    nodes = (ast.For, ast.ListComp)
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def collate(rows):
    padded = torch.zeros(len(rows), max(map(len, rows)))
    for i, row in enumerate(rows):  # !
        end = len(row)
        padded[i, :end] = torch.tensor(row)
    return padded

def pad_collate(batch):
    most = max(len(row["ids"]) for row in batch)
    ids = [row["ids"] + [0] * (most - len(row["ids"])) for row in batch]  # !
    labels = []
    for row in batch:  # !
        labels.append(row["labels"] + [-100] * (most - len(row["labels"])))
    return torch.tensor(ids), torch.tensor(labels)

def length_mask(lengths):
    mask = torch.zeros(len(lengths), max(lengths))
    for i, length in enumerate(lengths):  # !
        mask[i, :length] = 1
    return mask
""",
        """\
import torch
from torch.nn.utils.rnn import pad_sequence

def prepare(rows):
    padded = torch.zeros(len(rows), max(map(len, rows)))
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded

def collate(rows):
    both = {}
    for name, row in rows:
        both[name] = row[:3]
    return pad_sequence(rows), both

def features(row, most):
    return row + [0] * (most - len(row))
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node = site.node
        filling = _filling(node) if FILLS in look.text else None
        if filling is not None:
            yield Found(node, f"`{look.source(filling)}` lengthens the rows one by one")
            return
        if (
            not isinstance(node, ast.For)
            or not isinstance(node.iter, ast.Call)
            or called_name(node.iter)
            not in (
                "enumerate",
                "range",
                "zip",
            )
        ):
            return
        places = {each.id for each in walk(node.target) if isinstance(each, ast.Name)}
        for statement in node.body:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            if isinstance(target, ast.Subscript) and is_start_of_row(target, places):
                is_mask = isinstance(statement.value, ast.Constant)  # type: ignore[attr-defined]
                yield Found(
                    node,
                    f"`{look.source(target)}` is filled by a loop over rows",
                    least=Heat.ONCE if is_mask else None,
                )
                return


def _filling(loop: ast.For | ast.ListComp) -> ast.AST | None:
    """``[0] * (most - len(row))``, where the loop gives the row."""
    parts: Sequence[ast.AST]
    if isinstance(loop, ast.ListComp):
        target, parts = loop.generators[0].target, [loop.elt]
    else:
        target, parts = loop.target, loop.body
    rows = {each.id for each in walk(target) if isinstance(each, ast.Name)}
    for part in parts:
        if isinstance(part, ast.For | ast.While):
            continue
        for each in walk(part):
            if _is_filling(each, rows):
                return each
    return None


def _is_filling(node: ast.AST, rows: set[str]) -> bool:
    match node:
        case ast.BinOp(
            op=ast.Mult(),
            left=ast.List(),
            right=ast.BinOp(op=ast.Sub(), right=ast.Call(func=ast.Name(id="len"), args=[row])),
        ):
            root = root_name(row)
            return root is not None and root.id in rows
    return False
