"""A layer that needs no state, inside of a loop over time."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.recurrence import stateful
from hasten.scan.rule import Found, Rule


class ParallelWorkInTimeLoop(Rule):
    code = "HST405"
    name = "parallel-work-in-time-loop"
    why = "It depends on the moment's input only, yet runs as one small kernel for each moment."
    instead = "Call the layer once on the whole sequence before the loop and index its result."
    risk = "rounding: sums are taken in another order"
    nodes = (ast.For,)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Layer(torch.nn.Module):
    def forward(self, x, deltas):
        h = torch.zeros(x.size(0), self.size, device=x.device)
        for t in range(x.size(1)):
            d = deltas[:, t]
            decay = self.decay(d)  # !
            h = h * decay
            guess = self.guess(h)
            h = self.cell(x[:, t], h)
        for t in range(x.size(1)):
            drive = self.inner(x[:, t])  # !
            h = torch.tanh(drive + self.outer(h))
        return h
""",
        """\
import torch

class Layer(torch.nn.Module):
    def forward(self, x, deltas):
        decay = self.decay(deltas)
        h = torch.zeros(x.size(0), self.size, device=x.device)
        for t in range(x.size(1)):
            h = h * decay[:, t]
            guess = self.guess(h)
            h = self.cell(x[:, t], h)
        return h
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        found = stateful(site, look)
        for call in found.parallel() if found is not None else ():
            yield Found(call, f"`{look.source(call.func)}` does not need the state of the loop")
