"""Random choices, drawn one call at a time."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, is_constant, keyword
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import decodes, in_dataset


class ChoicePerRow(Rule):
    code = "HST116"
    name = "random-choice-per-row"
    why = (
        "Each call makes an array of what it chooses from, and without replacement shuffles all of"
        " it to take a few; a single call could draw for all rows."
    )
    instead = (
        "Draw for the whole batch: `rng.integers(0, lengths)` as places into the candidates, or one"
        " permutation that is consumed from the front."
    )
    verify = "Compare how often each is drawn; the numbers of a seed change."
    effort = "an hour"
    risk = "a seed gives other numbers"
    calls = ("choice", "choices", "sample")
    least = Heat.ELEMENT
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
import torch

class Sampler:
    def sample_rows(self, columns, options):
        rows = []
        for column, option in zip(columns, options):
            rows.append(np.random.choice(self.by_column[column][option]))  # !
        return rows

def train(model, sampler, loader):
    for columns, options in loader:
        model(sampler.sample_rows(columns, options)).backward()
""",
        """\
import numpy as np
from torch.utils.data import IterableDataset

class Grouped(IterableDataset):
    def __iter__(self):
        while True:
            for group in np.random.choice(self.groups, 4, replace=False):  # !
                yield group
""",
        """\
import numpy as np
import torch

def train(model, loader, groups):
    order = np.random.choice(groups, 100, replace=False)
    for x in loader:
        rows = np.random.choice(groups, len(x))
        model(x[rows], order).backward()
""",
        """\
import random
import soundfile as sf
from torch.utils.data import Dataset

class Mixtures(Dataset):
    def __getitem__(self, index):
        found = []
        for speaker in self.speakers[index]:
            path = random.choice(self.paths[speaker])
            found.append(sf.read(path)[0] * random.choice([-1, 1]))
        return sum(found)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call = site.node
        called = look.dotted(call.func)
        if site.loop is None or "random" not in called or not call.args:
            return
        if look.value(call.args[0], site).kind == "number" or _chooses_from_few(call.args[0]):
            return
        if decodes(site.function, look):
            return
        if is_constant(keyword(call, "replace"), value=False):
            if not in_dataset(site):  # said of all places by HST132
                return
            least: Heat | None = Heat.ONCE
        else:
            if look.local(site).inner == 0:
                return
            least = None
        yield Found(call, f"`{look.source(call.func)}` is called once a row", least=least)


def _chooses_from_few(node: ast.expr) -> bool:
    """From what the line itself lists."""
    return isinstance(node, ast.List | ast.Tuple | ast.Constant)
