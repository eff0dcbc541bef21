"""A hidden state that goes from one shuffled batch to the next."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, is_constant, keyword, receiver
from hasten.scan.nodes import walk
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import last_name

STATE = re.compile(r"hidden|(^|_)(h|c|hx|cx|state|states|hc|carry|memory)(_|$|\d)", re.IGNORECASE)


class StateCarriedOverShuffled(Rule):
    code = "HST655"
    name = "state-carried-over-shuffled"
    why = (
        "Samples of a shuffled loader do not follow each other: a state that is only detached, not"
        " reset, starts each batch with what is left of strangers."
    )
    instead = "Pass no state: recurrent layers start from zeros by themselves."
    risk = "training changes, as it was meant"
    verify = "Compare the outputs of one sample alone and within a training."
    calls = ("detach", "detach_")
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch.utils.data import DataLoader

def train(model, dataset, optimizer):
    loader = DataLoader(dataset, batch_size=8, shuffle=True)
    hidden = None
    for x, y in loader:
        out, hidden = model(x, hidden)
        hidden = hidden.detach()  # !
        out.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        """\
import torch
from torch.utils.data import DataLoader

def train(model, dataset, hidden):
    for x, y in DataLoader(dataset, batch_size=8, shuffle=True):
        out, hidden = model(x, hidden)
        hidden = tuple(each.detach() for each in hidden)  # !
        out.sum().backward()
""",
        """\
import torch
from torch.utils.data import DataLoader

def train(model, text, dataset, optimizer):
    hidden = None
    for x, y in DataLoader(text, batch_size=8, shuffle=False):
        out, hidden = model(x, hidden)
        hidden = hidden.detach()
        out.sum().backward()
    for x, y in DataLoader(dataset, batch_size=8, shuffle=True):
        loss = model(x).sum()
        loss.backward()
        total = loss.detach()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        statement, on = site.statement, receiver(site.node)
        if on is None or site.loop is None:
            return
        if isinstance(statement, ast.Assign):
            names = {last_name(each) for each in statement.targets}
            kept = any(STATE.search(each) for each in names) and _is_made_of_itself(site, names)
        else:
            kept = site.called == "detach_" and bool(STATE.search(last_name(on)))
        if kept and any(_is_shuffled(loop, site, look) for loop in look.loops(site)):
            yield Found(site.node, "the state of one shuffled batch goes into the next")


def _is_made_of_itself(site: Site, names: set[str]) -> bool:
    """``hidden = hidden.detach()``, or of each of its parts."""
    value = getattr(site.statement, "value", None)
    return value is not None and any(
        isinstance(each, ast.Name | ast.Attribute) and last_name(each) in names
        for each in walk(value)
    )


def _is_shuffled(loop: Loop, site: Site, look: Look) -> bool:
    _, over = loop.header()
    while isinstance(over, ast.Call) and called_name(over) in ("enumerate", "tqdm") and over.args:
        over = over.args[0]
    made = look.values.given(over, site.function)
    return isinstance(made, ast.Call) and is_constant(keyword(made, "shuffle"), True)
