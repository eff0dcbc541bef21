"""What files say together."""

from hasten.scan.analysis import Rules, analyse
from hasten.scan.link import Tree
from hasten.scan.rules.hst201_item import Item

TRAINER = """
import torch
class Trainer:
    def fit(self, loader):
        for batch in loader:
            self.prepare(batch)
    def read(self, x):
        return x.item()
"""
MIDDLE = """
import torch
from trainer import Trainer
class Better(Trainer):
    def name(self): ...
"""
LAST = """
import torch
from middle import Better
class Best(Better):
    def prepare(self, batch):
        return self.read(batch)
"""


def test_a_method_is_found_through_several_classes_in_several_files() -> None:
    rules = [Item()]
    analyses = {
        name: analyse(text, Rules.of(rules))
        for name, text in (("trainer.py", TRAINER), ("middle.py", MIDDLE), ("last.py", LAST))
    }
    findings = Tree(analyses).findings({"HST201": rules[0]})
    assert [(each.path, each.line) for each in findings] == [("trainer.py", 8)]
