"""``drop_last=True`` in evaluation."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, is_constant, keyword
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import EVALUATION, last_name


class DropLastInEvaluation(Rule):
    code = "HST642"
    name = "drop-last-in-evaluation"
    why = "The last samples are never evaluated: the figure is of other data than it says."
    instead = "Leave `drop_last` out where nothing is trained."
    effort = "a minute"
    risk = "the figures become those of all samples"
    verify = "Count the samples that were evaluated."
    calls = ("DataLoader",)
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
from torch.utils.data import DataLoader

def load(dataset, held_out):
    train_loader = DataLoader(dataset, batch_size=32, shuffle=True, drop_last=True)
    val_loader = DataLoader(held_out, batch_size=32, drop_last=True)  # !
    return train_loader, val_loader
""",
        """\
import torch

class Data:
    def test_dataloader(self):
        return torch.utils.data.DataLoader(self.data, 32, drop_last=True)  # !
""",
        """\
from torch.utils.data import DataLoader

def evaluate(model, test_set):
    for x in DataLoader(test_set, batch_size=8, drop_last=True):  # !
        model(x)
""",
        """\
from torch.utils.data import DataLoader

def load(dataset, held_out, latest):
    loader = DataLoader(latest, batch_size=32, drop_last=True)
    test_loader = DataLoader(held_out, batch_size=32, drop_last=False)
    return loader, test_loader

def split_train_test(train_data):
    return DataLoader(train_data, batch_size=4, drop_last=True)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        drops = keyword(site.node, "drop_last")
        if drops is not None and is_constant(drops, True) and _is_for_evaluation(site):
            yield Found(drops, "`drop_last=True` leaves samples out of the evaluation")


def _is_for_evaluation(site: Site) -> bool:
    """By what it is called and what it goes over; where neither tells, by its function."""
    statement = site.statement
    names = (
        [last_name(each) for each in statement.targets] if isinstance(statement, ast.Assign) else []
    )
    names += [last_name(each) for each in site.node.args[:1]]
    names = [each.lower() for each in names if each]
    if any("train" in each for each in names):
        return False
    if any(EVALUATION.search(each) for each in names):
        return True
    function = site.function.last_name.lower()
    return "train" not in function and EVALUATION.search(function) is not None
