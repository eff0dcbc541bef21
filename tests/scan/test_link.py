"""What files say together."""

from hasten.records.finding import Place
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


def test_a_line_that_was_seen_to_run_every_step_makes_its_function_hot() -> None:
    text = "import torch\ndef total_of(x):\n    y = x.sum()\n    return y.item()\n\nx = 1\n"
    rules = [Item()]
    analyses = {"loss.py": analyse(text, Rules.of(rules))}
    for line, found in ((3, [4]), (6, []), (99, [])):
        tree = Tree(analyses, [Place(path="loss.py", line=line)])
        assert [each.line for each in tree.findings({"HST201": rules[0]})] == found
    assert Tree(analyses, [Place(path="elsewhere.py", line=3)]).findings({"HST201": rules[0]}) == []
