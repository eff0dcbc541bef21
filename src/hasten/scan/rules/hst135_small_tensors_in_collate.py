"""A tensor for each sample of a batch, to be joined with the others at once."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import collates
from hasten.scan.look import MAKERS, Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import COMPREHENSIONS, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name


class SmallTensorsInCollate(Rule):
    code = "HST135"
    name = "small-tensors-in-collate"
    why = (
        "Making a tensor costs some microseconds however small it is; a batch of them costs that"
        " once a sample, and joining them copies all again."
    )
    instead = (
        "Gather plain numbers, or arrays, and make one tensor of all: `torch.tensor(lengths)`,"
        " `torch.repeat_interleave(torch.arange(n), lengths)`."
    )
    verify = "Compare a batch of both versions."
    calls = (*sorted(MAKERS), "sum")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def collate(batch):
    numbers = []
    for number, row in enumerate(batch):
        numbers.append(torch.full((len(row),), number))  # !
    return torch.cat(numbers), torch.stack([torch.tensor(len(row)) for row in batch])  # !

def collate_texts(batch):
    texts = []
    for label, text in batch:
        ids = torch.tensor(vocabulary(text))  # !
        texts.append(ids)
    return torch.cat(texts)

class Collator:
    def __call__(self, batch):
        ids = [torch.tensor(row["ids"]) for row in batch]  # !
        lengths = [torch.sum(row != self.pad) for row in ids]  # !
        rows = []
        for row in ids:
            rows.append(torch.cat([row, torch.zeros(self.most - len(row))]))  # !
        return torch.stack(rows), lengths

def train(model, rows, order, size):
    for start in range(0, len(order), size):
        places = order[start : start + size]
        batch = torch.stack([torch.tensor(rows[i]) for i in places])  # !
        model(batch).backward()
""",
        """\
import torch

def collate(batch):
    lengths = torch.tensor([len(row) for row in batch])
    padded = torch.zeros(len(batch), lengths.max())
    for number, row in enumerate(batch):
        padded[number, : len(row)] = row
    return padded, lengths

def prepare(batch):
    return [torch.tensor(len(row)) for row in batch]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.loop is None or not look.is_of_torch(site.node):
            return
        if _is_gathered(site) if collates(site.function) else _is_joined_at_once(site):
            yield Found(site.node, f"`{look.source(site.node)}` makes a tensor for each sample")


def _is_joined_at_once(site: Site) -> bool:
    """``torch.stack([torch.tensor(rows[i]) for i in places])``."""
    return isinstance(site.parent, ast.ListComp | ast.GeneratorExp) and any(
        isinstance(each, ast.Call)
        and called_name(each) in ("stack", "pad_sequence", *JOINS)
        and each.args[:1] == [site.parent]
        for each in walk(site.statement)
    )


def _is_gathered(site: Site) -> bool:
    """Whether it is appended to a list, also by a name, is what a comprehension gives, or is joined
    to a sample to lengthen it."""
    match site.statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is site.node:
            return any(
                each.called == "append"
                and each.loop is site.loop
                and [last_name(given) for given in each.node.args] == [name]
                for each in site.function.calls
            )
    if called_name(site.parent) == "append" or isinstance(site.parent, COMPREHENSIONS):
        return True
    return isinstance(site.parent, ast.List) and any(
        called_name(each) in JOINS and each.args[:1] == [site.parent]
        for each in walk(site.statement)
        if isinstance(each, ast.Call)
    )


JOINS = ("cat", "concat", "concatenate")
