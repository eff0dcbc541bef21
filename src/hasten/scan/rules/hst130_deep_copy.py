"""Deep copies in a hot place."""

import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name

SMALL = re.compile(r"(^|_)(config|cfg|conf|args|kwargs|settings|options|params_dict)$")
"""What is copied to be changed a little, and seldom."""


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
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.node.args and not SMALL.search(last_name(site.node.args[0]).lower()):
            yield Found(site.node, f"`{look.source(site.node)}` copies all that it reaches")
