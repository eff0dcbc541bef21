"""Random choices, drawn one call at a time."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import SAMPLE_FUNCTIONS, Heat
from hasten.scan.look import Look, argument, called_name, is_constant, keyword, names_in
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import counts_rows, decodes, in_dataset

DRAWS_NUMBER = ("randint", "integers", "randrange")
MOST = 2
"""Arguments of what draws one number."""


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
    calls = ("choice", "choices", "sample", "randint", "integers", "randrange")
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
import random

import numpy as np
from torch.utils.data import Dataset

class Pairing:
    def next_batch(self):
        rows = []
        for _ in range(self.batch_size):
            rows.append(self.x[np.random.choice(self.rows, 2, replace=False)])  # !
        return np.array(rows)

def negatives(users, seen, count):
    found = []
    for user in users:
        drawn = np.random.randint(count)
        while drawn in seen[user]:
            drawn = np.random.randint(count)  # !
        found.append(drawn)
    return found

class Pairs(Dataset):
    def __getitem__(self, index):
        user = self.users[index]
        while True:
            other = random.randrange(self.count)  # !
            if other not in self.seen[user]:
                break
        return user, other
""",
        """\
import numpy as np
import torch

def free_port(taken):
    port = np.random.randint(1024, 65536)
    while port in taken:
        port = np.random.randint(1024, 65536)
    return port

def train(model, loader, groups):
    order = np.random.choice(groups, 100, replace=False)
    for x in loader:
        rows = np.random.choice(groups, len(x))
        for group in groups:
            rows += random.sample(group, k=len(group))
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
        if site.loop is None or not call.args:
            return
        if _draws_until_new(site):
            yield Found(call, "numbers are drawn one by one until one is new", least=Heat.ONCE)
            return
        if "random" not in called or called_name(call) in DRAWS_NUMBER:
            return
        if look.value(call.args[0], site).kind == "number" or _chooses_from_few(call.args[0]):
            return
        if _takes_all(call) or decodes(site.function, look) or _is_of_agents(site):
            return
        if is_constant(keyword(call, "replace"), value=False):
            if in_dataset(site):
                least: Heat | None = Heat.ONCE
            elif _makes_batch(site, look):
                least = None
            else:  # said of all places by HST132
                return
        else:
            if look.local(site).inner == 0:
                return
            least = None
        yield Found(call, f"`{look.source(call.func)}` is called once a row", least=least)


AGENTS = re.compile(r"(actor|critic|agent|player|policy|policie|model|member|target|env)s?$")


def _is_of_agents(site: Site) -> bool:
    """Whether the loop goes over networks or players, of which there are a handful."""
    over = site.loop.header()[1] if site.loop is not None else None
    return over is not None and any(map(AGENTS.search, names_in(over)))


def _takes_all(call: ast.Call) -> bool:
    """``random.sample(rows, k=len(rows))``, which shuffles."""
    count = argument(call, 1, "k")
    match count:
        case ast.Call(func=ast.Name(id="len"), args=[held]):
            return ast.dump(held) == ast.dump(call.args[0])
    return False


def _makes_batch(site: Site, look: Look) -> bool:
    """Whether a loop draws for each row of a batch."""
    return any(
        isinstance(over := loop.header()[1], ast.Call)
        and called_name(over) == "range"
        and counts_rows(over, site.function, look)
        for loop in look.loops(site)
    )


def _draws_until_new(site: Site) -> bool:
    """``while drawn in seen: drawn = randint(n)`` and ``while True: ...; if drawn not in seen:
    break``, where many rows are gone through."""
    loop = site.loop
    if loop is None or not isinstance(loop.node, ast.While) or _draws_many(site.node):
        return False
    match site.statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is site.node:
            pass
        case _:
            return False
    asked = [loop.node.test, *(each.test for each in loop.node.body if isinstance(each, ast.If))]
    if not any(_is_membership(each, name) for test in asked for each in walk(test)):
        return False
    return loop.outer is not None or site.function.last_name in SAMPLE_FUNCTIONS


def _draws_many(call: ast.Call) -> bool:
    return keyword(call, "size") is not None or len(call.args) > MOST


def _is_membership(node: ast.AST, name: str) -> bool:
    return (
        isinstance(node, ast.Compare)
        and isinstance(node.ops[0], ast.In | ast.NotIn)
        and name in names_in(node.left)
    )


def _chooses_from_few(node: ast.expr) -> bool:
    """From what the line itself lists."""
    return isinstance(node, ast.List | ast.Tuple | ast.Constant)
