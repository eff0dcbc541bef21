"""What files say together."""

from hasten.records.finding import Place
from hasten.scan.analysis import analyse
from hasten.scan.link import Tree
from hasten.scan.looking import Rules
from hasten.scan.rules.hst201_item import Item
from hasten.scan.rules.hst207_blocking_transfer import BlockingTransfer

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


def lines_of(**files: str) -> list[tuple[str, int]]:
    """Where ``.item()`` is found in files that all import torch."""
    rules = [Item()]
    analyses = {
        f"{name}.py": analyse(f"import torch\n{text}", Rules.of(rules))
        for name, text in files.items()
    }
    findings = Tree(analyses).findings({"HST201": rules[0]})
    return [(each.path, each.line) for each in findings]


READS = "def share(x: torch.Tensor):\n    return x.item()\n"


def test_what_takes_tensors_is_a_step_unless_only_what_is_seldom_calls_it() -> None:
    assert lines_of(a=READS) == [("a.py", 3)]
    assert lines_of(a=f"{READS}def load(x):\n    share(x)\n") == []
    assert lines_of(a=f"{READS}def load(x):\n    share(x)\ndef blend(x):\n    share(x)\n") == [
        ("a.py", 3)
    ]


def test_a_call_now_and_then_makes_nothing_hot() -> None:
    text = "def read(self):\n    return self.x.item()\ndef run(loader):\n    for x in loader:\n"
    assert lines_of(a=f"{text}        read(x)\n") == [("a.py", 3)]
    assert lines_of(a=f"{text}        if x.number % 10 == 0:\n            read(x)\n") == []


def test_a_method_is_told_by_the_name_of_what_it_is_called_on() -> None:
    buffers = "".join(
        f"class {name}:\n    def add(self, x):\n        self.last = x.item()\n"
        for name in ("RolloutBuffer", "Registry", "Counter", "Basket")
    )
    caller = "def run(env, rollout_buffer):\n    for x in loader:\n        rollout_buffer.add(x)\n"
    assert lines_of(a=buffers, b=caller) == [("a.py", 4)]


def test_a_generator_runs_as_often_as_the_loop_over_it() -> None:
    caller = "def run(model):\n    for x in rows():\n        model(x).backward()\n"
    body = "def rows():\n    for each in things:\n        {} each.item()\n"
    assert lines_of(a=f"{body.format('yield')}{caller}") == [("a.py", 4)]
    assert lines_of(a=f"{body.format('return')}{caller}") == []


def test_a_base_with_types_in_brackets_is_a_base() -> None:
    base = "class Loop:\n    def fit(self, loader):\n        [self.go(x) for x in loader]\n"
    derived = "class Own(Loop[int]):\n    def go(self, x):\n        x.item()\n"
    assert lines_of(a=base, b=derived) == [("b.py", 4)]


def test_an_epoch_is_no_step_even_if_a_loop_of_steps_calls_it() -> None:
    text = "def train_epoch(x):\n    x.item()\ndef run(loader):\n    for x in loader:\n"
    assert lines_of(a=f"{text}        train_epoch(x)\n") == []


def test_a_rule_may_ask_for_more_than_what_a_function_takes() -> None:
    rule = BlockingTransfer()
    text = "import torch\ndef blend(x, device):\n    y = x.to(device)\n    return torch.exp(x), y\n"
    hot = f"{text}def run(loader):\n    for x in loader:\n        blend(x, 0)\n"
    for each, lines in ((text, []), (hot, [3])):
        tree = Tree({"a.py": analyse(each, Rules.of([rule]))})
        assert [found.line for found in tree.findings({"HST207": rule})] == lines


def test_a_function_is_found_by_its_file_that_stands_before_it() -> None:
    rules = [Item()]
    loop = "import package\ndef fit(loader):\n  for x in loader:\n    package.sums.total(x)\n"
    sums = "import torch\ndef total(parts):\n  return parts[0].item()\n"
    analyses = {
        name: analyse(text, Rules.of(rules))
        for name, text in (("loop.py", loop), ("package/sums.py", sums))
    }
    findings = Tree(analyses).findings({"HST201": rules[0]})
    assert [(each.path, each.line) for each in findings] == [("package/sums.py", 3)]


def lines_read(**texts: str) -> list[tuple[str, int]]:
    rules = [Item()]
    analyses = {f"{name}.py": analyse(text, Rules.of(rules)) for name, text in texts.items()}
    findings = Tree(analyses).findings({"HST201": rules[0]})
    return [(each.path, each.line) for each in findings]


AGENT = """
import torch
from base import Base
class Agent(Base):
    def learn_all(self, buffer):
        for _ in range(self.times):
            value = self.learn(buffer)
            print(value.item())
        return value.item()
    def learn(self, buffer):
        value = self.compare(buffer)
        self.go_back(value)
        return value.item()
"""
BASE = """
import torch
class Base:
    def go_back(self, value):
        self.optimizer.zero_grad()
        value.backward()
"""


def test_a_loop_that_trains_by_what_it_calls_is_one_of_steps() -> None:
    assert lines_read(agent=AGENT, base=BASE) == [("agent.py", 8), ("agent.py", 13)]
    assert lines_read(agent=AGENT) == []


def test_a_method_that_a_class_leaves_to_many_is_meant_by_a_call_of_any() -> None:
    kinds = "\n".join(
        f"class Kind{number}(Kind):\n    def weigh(self, x):\n        return x.item()"
        for number in range(5)
    )
    text = f"""
import torch
def fit(loader, kind):
    for batch in loader:
        kind.weigh(batch)
class Kind:
    def weigh(self, x): ...
{kinds}
"""
    assert len(lines_read(kinds=text)) == 5
    assert lines_read(kinds=text.replace("(Kind)", "")) == []
