"""``__getitem__`` with a cache."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

CACHES = ("functools.lru_cache", "functools.cache", "lru_cache", "cache")
RANDOM = re.compile(r"transform|augment|random|\brng\b|noise", re.IGNORECASE)


class CachedSamples(Rule):
    code = "HST647"
    name = "cached-samples"
    why = (
        "A cached sample is always the one that was drawn first: random augmentation is frozen, and"
        " each worker fills memory with a cache of its own."
    )
    instead = "Cache what is read before anything random is done to it."
    risk = "augmentation becomes random again"
    verify = "Take one sample twice and compare."
    nodes = (ast.FunctionDef,)
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import functools
import torch

class Images(torch.utils.data.Dataset):
    @functools.lru_cache(maxsize=None)  # !
    def __getitem__(self, index):
        return self.transform(read(self.paths[index]))
""",
        """\
from functools import lru_cache
import torch

class Images(torch.utils.data.Dataset):
    @lru_cache(maxsize=None)
    def read(self, index):
        return read(self.paths[index])

    def __getitem__(self, index):
        return self.transform(self.read(index))
""",
        """\
from functools import cache
import torch

class Rows(torch.utils.data.Dataset):
    @cache
    def __getitem__(self, index):
        return torch.tensor(self.rows[index])
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node = site.node
        if not node.decorator_list or node.name != "__getitem__":
            return
        for each in node.decorator_list:
            called = each.func if isinstance(each, ast.Call) else each
            if look.dotted(called) in CACHES and RANDOM.search(look.lines_of(node)):
                yield Found(each, "a cached sample is always augmented in the same way")
