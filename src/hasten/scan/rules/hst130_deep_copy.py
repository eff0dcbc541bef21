"""Deep copies in a hot place."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, names_in
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

SMALL = re.compile(
    r"(^|_)(config|cfg|conf|args|kwargs|settings|options|params|params_dict|schema|registry|metadata)$"
    r"|model|module|estimator|transformer|optimizer|policy|agent|actor|critic|(en|de)coder"
    r"|(^|_)net(work)?$|state_dict|best"
    r"|^(self|cls)$"
)
"""What is copied to be changed a little, and seldom; or to have a second one of it."""
COPIES = re.compile(r"^_*(deep)?copy|clone|^_*(new|untrained|reset)(_|$)|snapshot|checkpoint")
"""How functions are called that are there to copy: the trouble is with who calls them."""


class DeepCopy(Rule):
    code = "HST130"
    name = "deep-copy-in-hot-place"
    why = "`deepcopy` goes through every object that it reaches, in Python, and copies all arrays."
    instead = "Copy the level that is changed, `dict(sample)` or `list(sample)`, or change nothing."
    verify = "See that the original is not changed by what is done with the copy."
    risk = "what is shared and changed after all"
    calls = ("deepcopy",)
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import copy
from copy import deepcopy
from torch.utils.data import Dataset

class Rows(Dataset):
    def __getitem__(self, index):
        return copy.deepcopy(self.rows[index])  # !

def train(model, loader):
    for batch in loader:
        model(deepcopy(batch)).backward()  # !
""",
        """\
import copy

def train(model, loader, epochs):
    best = copy.deepcopy(model)
    for epoch in range(epochs):
        for batch in loader:
            model(batch).backward()
        best = copy.deepcopy(model)
    return best

def train_step(model, batch, cfg):
    own = copy.deepcopy(cfg)
    model(batch, own).backward()
    return copy.deepcopy(model.state_dict())

class Sample:
    def clone(self):
        return copy.deepcopy(self.parts)

def train_all(loader):
    for sample in loader:
        sample.clone().loss.backward()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if not site.node.args or COPIES.search(site.function.last_name):
            return
        copied = site.node.args[0]
        names = [copied.id] if isinstance(copied, ast.Name) else _read(copied)
        if not any(SMALL.search(each.lower()) for each in names):
            message = f"`{look.source(site.node)}` copies all that it reaches"
            yield Found(site.node, message, assumes=False)


def _read(node: ast.expr) -> list[str]:
    """All names of an expression but ``self``, of which an attribute or a part is read."""
    return [each for each in names_in(node) if each != "self"]
