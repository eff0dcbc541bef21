"""Tokens or series that are padded to the longest that may ever come."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Severity
from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, is_constant, keyword, names_in
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import in_dataset
from hasten.scan.trace import following, last_name


class PaddedToMaximum(Rule):
    code = "HST131"
    name = "padded-to-maximum-length"
    why = (
        "Every batch is as long as the longest sample that may come: the model mostly computes"
        " padding, and attention does so squared."
    )
    instead = (
        "Pad to the longest of the batch in `collate_fn`, `padding=True`, and put texts of like"
        " length together; pad to a multiple of 64 where shapes must be few."
    )
    verify = "Compare losses with the attention mask in place."
    risk = "shapes differ from batch to batch, which a captured or compiled step minds"
    calls = (
        "tokenizer", "tokenize", "_tokenizer", "encode_plus", "batch_encode_plus", "__call__",
        "encode", "pad", "src_tokenizer", "tgt_tokenizer", "text_tokenizer", "len", "zeros", "full",
        "ones",
    )  # fmt: skip
    least = Heat.ONCE
    severity: ClassVar[Severity | None] = "medium"
    needs_torch = False
    mentions = ("max", "MAX")
    examples: ClassVar[tuple[str, ...]] = (
        """\
def prepare(tokenizer, texts):
    first = tokenizer(texts, padding="max_length", truncation=True)  # !
    return first, tokenizer.encode_plus(texts[0], pad_to_max_length=True)  # !
""",
        """\
import numpy as np
import torch
from torch.utils.data import Dataset

def feature(ids, max_seq_length, args):
    mask = [1] * len(ids)
    padding_length = max_seq_length - len(ids)  # !
    ids = ids + [0] * padding_length
    return ids, mask + [0] * padding_length

def padded(ids, mask, max_seq_length):
    while len(ids) < max_seq_length:  # !
        ids.append(0)
        mask.append(0)
    return ids, mask

class Series(Dataset):
    def __getitem__(self, index):
        row = self.rows[index]
        padded = np.zeros((self.max_length, row.shape[1]))  # !
        padded[: len(row)] = row
        whole = torch.full(size=(3, self.max_size), fill_value=0)  # !
        whole[:, -len(row) :] = torch.from_numpy(row.T)
        return padded, whole

class Rows:
    def row(self, ids):
        ids += [self.pad] * (self.max_length - len(ids))  # !
        return ids, np.pad(ids, (0, self.max_length - len(ids)))
""",
        """\
import numpy as np
from torch.utils.data import Dataset

def collate(rows):
    max_length = max(len(row) for row in rows)
    return [row + [0] * (max_length - len(row)) for row in rows]

class Slots(Dataset):
    def __getitem__(self, index):
        slots = np.zeros((self.max_objects, 4))
        slots[index] = 1
        room = np.zeros(self.max_length)
        room[self.places[index]] = 1
        return slots, room

def rest(ids, max_length):
    left = max_length - len(ids)
    return left if left > 0 else 0

def prepare(tokenizer, texts):
    return tokenizer(texts, padding=True), tokenizer(texts, padding="longest")
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.called == "len":
            if self._is_first_padding(site, look):
                yield Found(site.node, f"`{look.source(site.parent)}` pads to the longest allowed")
            return
        if site.called in MAKES:
            if _fills_start(site):
                yield Found(site.node, f"`{look.source(site.node)}` is as long as any may be")
            return
        if is_constant(keyword(site.node, "padding"), "max_length") or is_constant(
            keyword(site.node, "pad_to_max_length"), value=True
        ):
            yield Found(
                site.node, f"`{look.source(site.node.func)}` pads all to the longest allowed"
            )

    def _is_first_padding(self, site: Site, look: Look) -> bool:
        return _pads(site, look) and not any(
            each.node.lineno < site.node.lineno and _pads(each, look)
            for each in look.calls_in(site.function, "len")
        )


LONGEST = re.compile(r"(^|_)max_?(\w+_)?(len|length|tokens|words)$|^MAX_?(\w+_)?LEN(GTH)?$")


MAKES = ("zeros", "full", "ones")
LARGEST = re.compile(r"(^|_)max_?(\w+_)?(len|length|size|steps|timesteps|frames|seq|nodes|atoms)$")


def _fills_start(site: Site) -> bool:
    """``x = zeros(max_length)``, of which a sample then fills the start or the end."""
    sizes = [*site.node.args[:1], *(word.value for word in site.node.keywords)]
    if not in_dataset(site) or not any(
        LARGEST.search(each) for size in sizes for each in names_in(size)
    ):
        return False
    match site.statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is site.node:
            return any(_is_part_of(name, each) for each in following(site))
    return False


def _is_part_of(name: str, statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=written), slice=place)]):
            parts = place.elts if isinstance(place, ast.Tuple) else [place]
            return written == name and any(
                isinstance(each, ast.Slice) and (each.lower is None) != (each.upper is None)
                for each in parts
            )
    return False


def _pads(site: Site, look: Look) -> bool:
    """``[0] * (max_length - len(ids))``, also with a name for the difference."""
    missing = site.parent
    if isinstance(missing, ast.Compare):
        return _appends_up_to(missing, site)
    if not isinstance(missing, ast.BinOp) or not isinstance(missing.op, ast.Sub):
        return False
    longest = missing.left
    if missing.right is not site.node or not LONGEST.search(last_name(longest)):
        return False
    if called_name(look.values.given(longest, site.function)) in ("max", "amax"):
        return False
    match site.statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is missing:
            return "pad" in name
    return any(_repeats(each, missing) for each in walk(site.statement))


def _appends_up_to(test: ast.Compare, site: Site) -> bool:
    """``while len(ids) < max_length: ids.append(0)``."""
    match site.statement, test:
        case (
            ast.While(test=whole, body=[*body]),
            ast.Compare(ops=[ast.Lt()], comparators=[longest]),
        ) if whole is test and site.node.args:
            name = ast.dump(site.node.args[0])
            return LONGEST.search(last_name(longest)) is not None and any(
                called_name(call) == "append"
                and len(call.args) == 1
                and isinstance(call.args[0], ast.Constant | ast.Name | ast.Attribute)
                and ast.dump(call.func.value) == name
                for call in (each.value for each in body if isinstance(each, ast.Expr))
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
            )
    return False


def _repeats(node: ast.AST, missing: ast.BinOp) -> bool:
    match node:
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return left is missing or right is missing
    return called_name(node) in ("pad", "ZeroPad1d", "ConstantPad1d") and any(
        each is missing for each in walk(node)
    )
