"""Stored lists of which each sample makes its tensors anew."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Severity
from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Function, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import CONVERTS, sample_methods
from hasten.scan.trace import last_given, root_name

MAKES = frozenset(("tensor", "as_tensor", "LongTensor", "FloatTensor", "Tensor", "IntTensor"))
STEPS_BACK = 4


class ConvertedPerSample(Rule):
    code = "HST160"
    name = "stored-lists-converted-per-sample"
    why = (
        "The data set keeps Python lists and makes tensors of them each time that a sample is"
        " asked for: every number is read from an object of its own, in every epoch again."
    )
    instead = (
        "Make the tensors, or NumPy arrays, once when the data set is made; where all samples are"
        " as long, one array for each part, which a whole batch is indexed from."
    )
    verify = "Compare samples of both versions, with their types."
    nodes = (ast.ClassDef,)
    least = Heat.ONCE
    severity: ClassVar[Severity | None] = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch.utils.data import Dataset

class Records(Dataset):
    def __getitem__(self, index):
        record = self.records[index]
        ids = torch.tensor(record["ids"])  # !
        return ids, torch.LongTensor(record["tags"])

class Features(Dataset):
    def __getitem__(self, index):
        feature = self.features[index]
        return {name: torch.tensor(part) for name, part in feature.items()}  # !

class Samples(Dataset):
    def __getitem__(self, index):
        sample = self.samples[index]
        return torch.tensor(sample.ids, dtype=torch.long), sample.label  # !
""",
        """\
import torch
from torch.utils.data import Dataset

class Texts(Dataset):
    def __getitem__(self, index):
        record = self.records[index]
        return torch.tensor(self.tokenizer.encode(record["text"]))

class Images(Dataset):
    def __getitem__(self, index):
        record = self.records[index]
        return self.transform(read(record["path"])), torch.tensor(record["label"])

class Labelled(Dataset):
    def __getitem__(self, index):
        record = self.records[index]
        return record["x"], torch.tensor(record["label"])
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        for method in sample_methods(site, look):
            if method.owner is None or "__getitems__" in method.owner.methods:
                continue
            if not all(_is_plain(each.node, look) for each in method.calls):
                continue
            for each in sorted(method.calls, key=lambda each: each.node.lineno):
                if each.called in MAKES and _is_stored(each.node, method):
                    message = f"`{look.source(each.node)}` is made of a stored list each time"
                    yield Found(each.node, message)
                    return


def _is_plain(call: ast.Call, look: Look) -> bool:
    """Whether a sample goes through it unchanged but for its type."""
    if called_name(call) in MAKES:
        return look.is_of_torch(call)
    is_record = isinstance(call.func, ast.Name) and call.func.id[:1].isupper()
    return is_record or called_name(call) in CONVERTS


SINGLE = ("label", "target", "y", "score", "length", "idx", "index", "id", "weight", "class")


def _is_stored(call: ast.Call, method: Function) -> bool:
    """Whether it is given a part of a record, ``record["ids"]``, that is an element of an attribute
    of ``self``; one that is called as a single number is none."""
    given = call.args[0] if call.args else None
    if isinstance(given, ast.Name):
        return _is_part_of_record(given, method)
    match given:
        case ast.Subscript(value=held, slice=ast.Constant(value=str(name))):
            pass
        case ast.Attribute(value=ast.Name() as held, attr=name):
            pass
        case _:
            return False
    return not name.lower().endswith(SINGLE) and _is_record(held, method)


def _is_part_of_record(name: ast.Name, method: Function) -> bool:
    """``part`` of ``for name, part in record.items()``."""
    for binding in method.bindings.get(name.id, ()):
        if binding.how == "loop" and called_name(binding.value) in ("items", "values"):
            return _is_record(root_name(binding.value), method)
    return False


def _is_record(node: ast.AST | None, method: Function) -> bool:
    """``self.records[index]``, also by a name."""
    for _ in range(STEPS_BACK):
        match node:
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self")), slice=index):
                places = {each.id for each in walk(index) if isinstance(each, ast.Name)}
                return not places.isdisjoint(method.parameters)
            case ast.Name():
                node = last_given(node, method)
            case _:
                return False
    return False
