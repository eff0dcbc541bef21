"""Rows that a Python loop copies into a padded array."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import is_start_of_row
from hasten.scan.trace import names, root_name

COUNTS = ("enumerate", "range", "zip")


class PaddedByLoop(Rule):
    code = "HST133"
    name = "rows-padded-by-loop"
    why = "Each row is a slice and a copy of its own, for every batch again."
    instead = (
        "Use `torch.nn.utils.rnn.pad_sequence`, or join all rows and write them with one mask;"
        " keep rows as tensors so that nothing is converted."
    )
    verify = "Compare the padded batches of both versions."
    nodes = (ast.For,)
    calls = ("len",)
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
    for row in batch:
        labels.append(row["labels"] + [-100] * (most - len(row["labels"])))  # !
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
        if isinstance(node, ast.Call):
            filling = _filling(site)
            if filling is not None:
                message = f"`{look.source(filling)}` lengthens the rows one by one"
                yield Found(site.statement, message)
            return
        if not isinstance(node.iter, ast.Call) or called_name(node.iter) not in COUNTS:
            return
        places = {each.id for each in walk(node.target) if isinstance(each, ast.Name)}
        for statement in node.body:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            if isinstance(target, ast.Subscript) and is_start_of_row(target, places):
                is_mask = isinstance(statement.value, ast.Constant)
                yield Found(
                    node,
                    f"`{look.source(target)}` is filled by a loop over rows",
                    least=Heat.ONCE if is_mask else None,
                )
                return


def _filling(site: Site) -> ast.BinOp | None:
    """``[0] * (most - len(row))`` around a ``len(row)``, where the loop gives the row."""
    missing, root = site.parent, root_name(site.node.args[0]) if site.node.args else None
    if not isinstance(missing, ast.BinOp) or missing.right is not site.node:
        return None
    target = site.loop.header()[0] if site.loop is not None else None
    if root is None or target is None or root.id not in names(target):
        return None
    for each in walk(site.statement):
        match each:
            case ast.BinOp(op=ast.Mult(), left=ast.List(), right=right) if right is missing:
                return each
    return None
