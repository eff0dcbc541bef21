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
from hasten.scan.trace import names, root_name, varies

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
    calls = ("len", "pad")
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
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

def batchify(rows, most):
    padded = torch.zeros(len(rows), most)
    for i, row in enumerate(rows):  # !
        padded[i, : row.size(0)].copy_(row)
    for i in range(len(rows)):  # !
        padded[i][: len(rows[i])] = rows[i]
    return padded

def collate_images(images, most):
    rows = [np.pad(image, (0, most - len(image))) for image in images]  # !
    found = []
    for image in images:
        missing = most - image.shape[0]
        found.append(torch.nn.functional.pad(image, (0, missing)))  # !
    return rows, found
""",
        """\
import numpy as np
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
    wider = [torch.nn.functional.pad(row, (1, 1)) for _, row in rows]
    return pad_sequence(rows), both, wider

def stream(rows, most):
    while rows.left:
        row = rows.read()
        yield np.pad(row, (0, most - len(row)))

def collate_boxes(boxes, moved):
    for i, box in enumerate(boxes):
        moved[i, :2] = box
    return moved

def features(row, most):
    return row + [0] * (most - len(row))
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node = site.node
        if isinstance(node, ast.Call):
            filling = _filling(site) if called_name(node) == "len" else _lengthened(site, look)
            if filling is not None:
                message = f"`{look.source(filling)}` lengthens the rows one by one"
                yield Found(site.statement, message)
            return
        if not isinstance(node.iter, ast.Call) or called_name(node.iter) not in COUNTS:
            return
        places = {each.id for each in walk(node.target) if isinstance(each, ast.Name)}
        for statement in node.body:
            target, value = _written(statement)
            if isinstance(target, ast.Subscript) and is_start_of_row(target, places):
                is_mask = isinstance(value, ast.Constant)
                yield Found(
                    node,
                    f"`{look.source(target)}` is filled by a loop over rows",
                    least=Heat.ONCE if is_mask else None,
                )
                return


def _written(statement: ast.stmt) -> tuple[ast.expr | None, ast.expr | None]:
    """Where a statement writes, and what: ``x[i, :n] = row`` and ``x[i, :n].copy_(row)``."""
    match statement:
        case ast.Assign(targets=[target], value=value):
            return target, value
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(value=target, attr="copy_" | "fill_"), args=[value])
        ):
            return target, value
    return None, None


def _lengthened(site: Site, look: Look) -> ast.Call | None:
    """``pad(row, (0, most - len(row)))``, where the loop gives the row and what is missing."""
    call: ast.Call = site.node
    if len(call.args) < 2 or site.loop is None or isinstance(site.loop.node, ast.While):
        return None
    if not look.dotted(call.func).startswith(("torch.", "numpy.")):
        return None
    row, widths = call.args[:2]
    is_one = varies(row, site.loop) and not look.heats.goes_over_few(site.loop)
    return call if is_one and varies(widths, site.loop) else None


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
