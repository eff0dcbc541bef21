"""A store of past steps that gives a batch row by row."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import DRAWS, REPLAYS
from hasten.scan.look import Look, called_name, is_own_attribute
from hasten.scan.nodes import walk
from hasten.scan.outline import Class, Function, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name

COUNTED = ("range", "zip", "enumerate")


class StoreRowByRow(Rule):
    code = "HST150"
    name = "store-read-row-by-row"
    why = (
        "Each step takes its batch out of Python objects one by one, and stacks them again: that"
        " can take longer than the step itself."
    )
    instead = (
        "Keep one array for each part of a step, allocated once, and index it with all places of"
        " the batch: `self.rewards[places]`."
    )
    verify = "Compare a batch of both versions from the same seed."
    effort = "an hour"
    risk = "an array has a fixed size and one type for all rows"
    nodes = (ast.For, ast.ListComp)
    calls = ("sample",)
    mentions = ("Buffer", "Memory", "Replay", "Storage")
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import random
from collections import deque

import numpy as np

class ReplayBuffer:
    def __init__(self, size):
        self.steps = deque(maxlen=size)

    def sample(self, count):
        batch = random.sample(self.steps, count)  # !
        states, actions = zip(*batch)
        return np.array(states), np.array(actions)

class PrioritizedReplay:
    def sample(self, count):
        places = np.random.randint(len(self.steps), size=count)
        return [self.steps[place] for place in places]  # !

    def update_priorities(self, places, errors):
        for place, error in zip(places, errors):  # !
            self.tree.update(place, error)

class EpisodeMemory:
    def sample(self, count):
        found = []
        for _ in range(count):  # !
            episode = self.episodes[random.randrange(len(self.episodes))]
            found.append(episode)
        return found
""",
        """\
import random

import numpy as np

class ReplayBuffer:
    def __init__(self, size):
        self.rewards = np.zeros(size)
        self.parts = {"state": self.rewards}
        self.steps = []

    def sample(self, count):
        places = np.random.randint(self.size, size=count)
        return {name: part[places] for name, part in self.parts.items()}, self.rewards[places]

    def load(self, rows):
        for place, row in enumerate(rows):
            self.rewards[place] = row

class Rows:
    def sample(self, count):
        return [self.rows[place] for place in range(count)]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        owner = site.function.owner
        if owner is None or not _draws(site.function, owner):
            return
        if isinstance(site.node, ast.Call):
            if _is_of_deque(site.node, owner):
                held = look.source(site.node.args[0])
                yield Found(site.node, f"each place of the deque `{held}` is walked to")
        elif _goes_over_rows(site.node, look, site):
            yield Found(site.node, f"`{site.function.last_name}` goes through the batch in Python")


def _draws(function: Function, owner: Class) -> bool:
    return bool(REPLAYS.search(owner.name)) and bool(DRAWS.search(function.last_name))


def _is_of_deque(call: ast.Call, owner: Class) -> bool:
    """``random.sample(self.steps, n)``, where ``self.steps`` is a deque."""
    if not call.args or not is_own_attribute(call.args[0]):
        return False
    given = owner.attributes.get(last_name(call.args[0]), ())
    return any(called_name(binding.value) == "deque" for binding, _ in given)


def _goes_over_rows(node: ast.For | ast.ListComp, look: Look, site: Site) -> bool:
    """Whether each turn asks an attribute of ``self`` for one row, or changes one."""
    loop = node if isinstance(node, ast.For) else node.generators[0]
    over = loop.iter
    if called_name(over) not in COUNTED and not isinstance(over, ast.Name):
        return False
    if any(each.node is node and look.heats.goes_over_few(each) for each in site.function.loops):
        return False
    body = node.body if isinstance(node, ast.For) else [node.elt]
    return any(_asks_self(each) for part in body for each in walk(part))


def _asks_self(node: ast.AST) -> bool:
    """``self.rows[i]`` and ``self.tree.update(i, x)``."""
    match node:
        case ast.Subscript(value=held, slice=index):
            return is_own_attribute(held) and not isinstance(index, ast.Constant | ast.Slice)
        case ast.Call(func=ast.Attribute(value=held), args=[_, *_]):
            return is_own_attribute(held)
    return False
