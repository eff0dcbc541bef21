"""Data that a loop converts again in every turn, though it stays the same."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, is_own_attribute
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import is_bound_in, last_name

DATA = re.compile(r"^(x|y)(_|$)|(^|_)(data|train|features?|inputs?|labels?|targets?)(_|$)", re.I)
"""What an attribute is called that holds data which nobody changes while it is used."""
CHANGES = ("append", "extend", "insert", "add", "update", "shuffle", "pop")


class ConvertedInEveryTurn(Rule):
    code = "HST152"
    name = "converted-in-every-turn"
    why = "The whole data is copied and converted again in each turn, and comes out the same."
    instead = "Convert it once before the loop."
    verify = "Compare what both versions compute from the same seed."
    effort = "a minute"
    calls = ("from_numpy", "tensor", "as_tensor", "FloatTensor", "LongTensor", "toarray", "todense")
    in_loops = True
    least = Heat.ONCE
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def fit(models, x, y, epochs):
    for epoch in range(epochs):
        inputs = torch.tensor(x, dtype=torch.float32)  # !
        train(models, inputs, y)

class Ensemble:
    def fit(self, x, count):
        self.train_data = x
        for number in range(count):
            rows = torch.from_numpy(self.train_data).float()  # !
            self.members.append(self.make(number)(rows))
""",
        """\
import torch

def fit(models, x, y, epochs, rate):
    inputs = torch.tensor(x)
    for epoch in range(epochs):
        x = x[torch.randperm(len(x))]
        moved = torch.tensor(x)
        share = torch.tensor(rate)
        if epoch == 0:
            first = torch.from_numpy(y)
    steps = []
    for step in range(epochs):
        steps.append(step)
        both = torch.tensor(steps)
    for x in inputs:
        rows = [torch.tensor(y) for _ in x]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        loop = site.loop
        if loop is None or not loop.is_statement or look.is_rare(site):
            return
        data = _data(site.node)
        if data is None or look.value(data, site).kind == "number":
            return
        if _is_conditional(site, loop) or look.heats.prepares_data(site.function):
            return
        if _stays(data, loop, site):
            yield Found(site.node, f"`{look.source(data)}` is converted again in every turn")


def _data(call: ast.Call) -> ast.expr | None:
    """A name or an attribute of ``self`` that is called as data is."""
    if called_name(call) in ("toarray", "todense"):
        data = call.func.value if isinstance(call.func, ast.Attribute) else None
    else:
        data = call.args[0] if call.args else None
    if not isinstance(data, ast.Name) and not is_own_attribute(data):
        return None
    return data if DATA.search(last_name(data)) else None


def _is_conditional(site: Site, loop: Loop) -> bool:
    """Whether an ``if`` of the loop lets only some turns get there."""
    for block in site.block.outwards() if site.block is not None else ():
        if block.node is loop.node:
            return False
        if isinstance(block.node, ast.If | ast.Try):
            return True
    return False


def _stays(data: ast.expr, loop: Loop, site: Site) -> bool:
    """Whether no loop around gives it another value or changes it."""
    name = last_name(data)
    outermost = [*loop.outwards()][-1]
    if isinstance(data, ast.Name):
        if is_bound_in(name, outermost):
            return False
    elif site.function.owner is not None and any(
        function is site.function and outermost.holds(binding.line)
        for binding, function in site.function.owner.attributes.get(name, ())
    ):
        return False
    return not any(
        each.called in CHANGES
        and name
        in (last_name(getattr(each.node.func, "value", None)), *map(last_name, each.node.args))
        for each in site.function.calls
    )
