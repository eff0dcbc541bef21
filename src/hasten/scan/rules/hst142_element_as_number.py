"""Elements of a tensor that a loop reads as numbers, one by one."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import is_element


class ElementAsNumber(Rule):
    code = "HST142"
    name = "elements-read-one-by-one"
    why = (
        "Each element is a view, a tensor of one number and a call of its own, thousands of times"
        " what reading a list takes; on a device it is a copy that is waited for, each time."
    )
    instead = (
        "Convert once before the loop, `rows = x.tolist()`, or write the loop as an operation on"
        " the whole tensor: `gather`, `index_select`, `bincount`."
    )
    verify = "Compare what both versions give."
    calls = ("item", "int", "float")
    in_loops = True
    least = Heat.ONCE
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def by_relation(graph):
    heads = {}
    for i in range(graph.n_facts):
        heads.setdefault(graph.relations[i].item(), set()).add(graph.heads[i].item())  # !
    return heads

def corrupt(relations, picks: torch.Tensor, known, size):
    found = []
    for i in range(size):
        r = relations[i].item()  # !
        found.append(known[r][int(picks[i])])  # !
    return found

def lengths(mask: torch.Tensor):
    return [int(mask[i].sum()) for i in range(mask.shape[0])], [x.item() for x in mask]  # !
""",
        """\
import torch

class Blocks(torch.nn.Module):
    def __init__(self, rate, count):
        self.rates = [each.item() for each in torch.linspace(0, rate, count)]

def report(losses, names, rows, loader, model, x: torch.Tensor):
    for i in range(3):
        print(x[i].item())
    for name in names:
        print(name, losses[name].item())
    for step, batch in enumerate(loader):
        print(rows[0].item(), int(rows[step]))
    for i in range(len(rows)):
        print(model(i).item(), float(names[i]))
    return x[0].item()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        if _sets_up_model(site, look):
            return
        if isinstance(site.statement, ast.Assert) or not is_element(
            _read(call, site, look), site, look
        ):
            return
        if not _is_said_before(site, look):
            yield Found(call, f"`{look.source(call)}` reads one element in each turn of the loop")


def _sets_up_model(site: Site, look: Look) -> bool:
    """Whether a few numbers are read once, when a model is made."""
    owner = site.function.owner
    return (
        owner is not None and site.function.last_name == "__init__" and look.values.is_module(owner)
    )


def _read(call: ast.Call, site: Site, look: Look) -> ast.expr | None:
    """What a call makes a number of: ``x`` of ``x.item()`` and, if it is a tensor, ``int(x)``."""
    if isinstance(call.func, ast.Attribute):
        return call.func.value if call.func.attr == "item" and not call.args else None
    if len(call.args) != 1 or not isinstance(call.args[0], ast.Subscript | ast.Call):
        return None
    return call.args[0] if look.value(call.args[0], site).is_tensor else None


def _is_said_before(site: Site, look: Look) -> bool:
    """Whether the statement reads another element on an earlier line."""
    first, here = site.statement.lineno, site.node.lineno
    return first < here and any(
        first <= each.node.lineno < here
        and each.called == "item"
        and is_element(_read(each.node, each, look), each, look)
        for each in site.function.calls
    )
