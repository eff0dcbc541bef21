"""Work that a collate function does for one sample at a time."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import collates
from hasten.scan.look import Look, is_own_attribute
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import loop_of, varies


class SampleBySampleInCollate(Rule):
    code = "HST141"
    name = "collate-works-sample-by-sample"
    why = (
        "The collate function runs once a batch, and calls what transforms or draws once a sample:"
        " with arrays for the whole batch it would be once."
    )
    instead = "Stack first and transform the batch, or do it in the data set, in its workers."
    verify = "Compare a batch of both versions; what is random is drawn in another order."
    effort = "an hour"
    nodes = (ast.For,)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Loader:
    def collate_fn(self, index):
        found = []
        for user in self.users[index]:
            rows = self.transform(self.dataset[user])  # !
            found.append(self.draw(rows))
        return torch.cat(found)
""",
        """\
import torch

class Loader:
    def collate_fn(self, batch):
        found = []
        for row in batch:
            found.append(row["x"])
        for name in ("x", "y"):
            found.append(self.stack(batch, name))
        return self.pad(found)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if not collates(site.function):
            return
        loop = loop_of(site)
        if loop is None or look.heats.goes_over_few(loop):
            return
        for each in sorted(loop.calls, key=lambda each: each.node.lineno):
            if is_own_attribute(each.node.func) and varies(each.node, loop):
                yield Found(each.node, f"`{each.called}` is called for each sample")
                return
