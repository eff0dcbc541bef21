"""A store of past steps that gives a batch row by row."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import DRAWS, Heat, is_store
from hasten.scan.look import Look, called_name, is_constant, is_own_attribute, names_in
from hasten.scan.nodes import walk
from hasten.scan.outline import Class, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import FEW_PARTS
from hasten.scan.trace import loop_of, names
from hasten.scan.vocabulary import words

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
    calls = ("sample", "pop")
    mentions = (
        "Buffer",
        "Memory",
        "Replay",
        "Storage",
        "Experience",
        "Tree",
        "deque",
        "def sample(",
    )
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
from collections import deque

import numpy as np
import torch

class ReplayBuffer:
    def sample(self, count):
        return self._encode(np.random.randint(self.size, size=count))

    def _encode(self, places):
        found = []
        for place in places:  # !
            found.append(self._row(place))
        return np.stack(found)

class EpisodeBuffer:
    def sample_step(self):
        return self.steps[np.random.randint(len(self.steps))]

    def sample_batch(self, count):
        return [self.sample_step() for _ in range(count)]  # !

    def sample(self, count):
        batch = self.sample_batch(count)
        states = np.stack([step.state for step in batch])  # !
        return states, torch.tensor([step[1] for step in batch])  # !

class Transitions:
    def push(self, *step):
        if len(self.steps) == self.size:
            self.steps.pop(0)  # !
        self.steps.append(step)

    def sample(self, count):
        return random.sample(self.steps, count)  # !

class SumTree:
    def draw(self, count):
        return [self.leaf(mass) for mass in torch.rand(count)]  # !

class Agent:
    def __init__(self):
        self.steps = deque(maxlen=10_000)

    def learn(self, count):
        chosen = random.sample(self.steps, count)  # !
        others = [self.steps[i] for i in np.random.randint(len(self.steps), size=count)]  # !
        self.loss(chosen, others).backward()
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
        return np.stack([row.state for row in rows])

class Rows:
    def sample(self, count):
        return [self.rows[place] for place in range(count)]

class VectorBuffer:
    def sample(self, count):
        found = []
        for env in range(self.num_envs):
            found.append(self.trees[env].draw(count))
        return np.concatenate(found)

    def add(self, rows):
        for row in rows:
            self._insert(row)

    def update_priorities(self, count):
        for _ in range(count):
            self.loss(self.parts.sample(count))

class Agent:
    def __init__(self):
        self.names = []

    def learn(self, count):
        names = random.sample(self.names, count)
        self.loss([self.names[i] for i in range(count)], names).backward()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        owner = site.function.owner
        if owner is None:
            return
        in_store = is_store(owner) and not ADDS.search(site.function.last_name)
        if site.called == "pop":
            if is_store(owner) and _takes_first(site.node):
                name = look.source(site.node.func)
                message = f"`{name}(0)` moves all that is kept by a place"
                yield Found(site.node, message, least=Heat.ONCE)
        elif isinstance(site.node, ast.Call):
            held = site.node.args[0] if site.node.args else None
            if isinstance(held, ast.Attribute) and is_own_attribute(held):
                if _is_deque(held.attr, owner):
                    name = look.source(held)
                    yield Found(site.node, f"each place of the deque `{name}` is walked to")
                elif in_store and look.dotted(site.node.func) == "random.sample":
                    yield Found(site.node, f"`{look.source(held)}` is a list of rows, each its own")
        elif in_store and _stacks_parts(site):
            yield Found(site.node, f"`{look.source(site.node)}` takes a part out of each step")
        elif (
            (in_store or look.mentions(("deque",)))
            and _goes_over_many(site, look)
            and any(
                (in_store and (_asks_self(each, site.node) or _draws_one(each, owner)))
                or _indexes_deque(each, owner)
                for each in _turn(site.node)
            )
        ):
            yield Found(site.node, f"`{site.function.last_name}` goes through the batch in Python")


ADDS = re.compile(
    r"^_*(init|add|push|append|store|insert|extend|put|reset|clear|save|load|remember)"
)


def _is_deque(name: str, owner: Class) -> bool:
    given = owner.attributes.get(name, ())
    return any(called_name(binding.value) == "deque" for binding, _ in given)


def _indexes_deque(node: ast.AST, owner: Class) -> bool:
    """``self.steps[i]``, where ``self.steps`` is a deque."""
    match node:
        case ast.Subscript(value=ast.Attribute(attr=name) as held, slice=index):
            if isinstance(index, ast.Constant | ast.Slice | ast.UnaryOp):
                return False
            return is_own_attribute(held) and _is_deque(name, owner)
    return False


def _goes_over_many(site: Site, look: Look) -> bool:
    """Whether it may go through as many things as there are rows in a batch."""
    node = site.node
    over = node.iter if isinstance(node, ast.For) else node.generators[0].iter
    if isinstance(over, ast.Call):
        module = look.dotted(over.func).partition(".")[0]
        if called_name(over) not in COUNTED and module not in ("numpy", "torch"):
            return False
    elif not isinstance(over, ast.Name):
        return False
    if any(FEW_PARTS.search(each) for each in names_in(over)):
        return False
    loop = loop_of(site)
    return loop is not None and not look.heats.goes_over_few(loop)


def _turn(node: ast.For | ast.ListComp) -> Iterator[ast.AST]:
    """All that one turn does."""
    for part in node.body if isinstance(node, ast.For) else [node.elt]:
        yield from walk(part)


def _takes_first(call: ast.Call) -> bool:
    """``self.steps.pop(0)``."""
    held = call.func.value if isinstance(call.func, ast.Attribute) else None
    return is_own_attribute(held) and len(call.args) == 1 and is_constant(call.args[0], 0)


def _stacks_parts(site: Site) -> bool:
    """``np.stack([step.state for step in batch])``."""
    match site.node:
        case ast.ListComp(
            elt=ast.Attribute(value=ast.Name(id=taken))
            | ast.Subscript(value=ast.Name(id=taken), slice=ast.Constant()),
            generators=[ast.comprehension(target=ast.Name(id=each), iter=ast.Name(), ifs=[])],
        ):
            return taken == each and called_name(site.parent) in STACKS
    return False


STACKS = words("array asarray stack vstack concatenate tensor as_tensor FloatTensor LongTensor cat")


def _draws_one(node: ast.AST, owner: Class) -> bool:
    """``self.draw_step()``, a method of the store that draws by chance and has no loop."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name) as called) if is_own_attribute(called):
            own = owner.methods.get(name)
            return own is not None and not own.loops and not CHANCE.isdisjoint(own.called)
    return False


CHANCE = words("choice randint randrange integers random choices sample")


def _asks_self(node: ast.AST, loop: ast.For | ast.ListComp) -> bool:
    """``self.rows[i]``, ``self.tree.update(i, x)`` and ``self._row(i)``."""
    match node:
        case ast.Subscript(value=held, slice=index):
            return is_own_attribute(held) and not isinstance(index, ast.Constant | ast.Slice)
        case ast.Call(func=ast.Attribute(value=held) as called, args=[first, *_]):
            if DRAWS.search(called.attr):  # a batch of its own
                return False
            if is_own_attribute(held):
                return True
            target = loop.target if isinstance(loop, ast.For) else loop.generators[0].target
            return is_own_attribute(called) and not set(names(target)).isdisjoint(names(first))
    return False
