"""A random generator that all workers of a loader copy."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, is_own_attribute
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

SEEDED = ("__getstate__", "set_epoch", "reseed", "__setstate__")


class GeneratorSharedByWorkers(Rule):
    code = "HST646"
    name = "generator-shared-by-workers"
    why = (
        "Each worker starts from a copy of the same generator: all of them draw the same numbers,"
        " and draw them again in each epoch, so that augmentations repeat."
    )
    instead = (
        "Draw from torch's generator, or make one in each worker from `get_worker_info().seed`."
    )
    risk = "augmentations differ, as they were meant to"
    verify = "Print what two workers draw in two epochs."
    calls = ("default_rng", "RandomState", "Random")
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import numpy as np
import torch

class Samples(torch.utils.data.Dataset):
    def __init__(self, data, seed):
        self.data = data
        self.rng = np.random.default_rng(seed)  # !

    def __getitem__(self, index):
        return self.data[index] + self.rng.normal()
""",
        """\
import numpy as np
import torch

class Samples(torch.utils.data.Dataset):
    def __init__(self, data, seed):
        rng = np.random.default_rng(seed)
        self.rng = np.random.RandomState(seed)
        self.data = data[rng.permutation(len(data))]
        self.order = self.rng.permutation(len(data))

    def __getitem__(self, index):
        return self.data[self.order[index]]
""",
        """\
import numpy as np
import torch

class Samples(torch.utils.data.Dataset):
    def __init__(self, data, seed):
        self.data, self.seed = data, seed

    def __getitem__(self, index):
        rng = np.random.default_rng((self.seed, index))
        return self.data[index] + rng.normal()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        owner = site.function.owner
        if owner is None or site.function.last_name != "__init__":
            return
        draws = owner.methods.get("__getitem__")
        statement = site.statement
        if draws is None or not isinstance(statement, ast.Assign):
            return
        target = statement.targets[0]
        if not is_own_attribute(target) or any(each in look.text for each in SEEDED):
            return
        name = f"self.{target.attr}"  # type: ignore[attr-defined]
        if f"{name}." in look.text_of(draws) and "worker_info" not in look.text:
            yield Found(site.node, f"workers all draw the same numbers from `{name}`")
