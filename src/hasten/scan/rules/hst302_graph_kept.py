"""A loss that is added up or collected with the whole graph behind it."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.inference import DROPS, asks_openly, only_infers, records
from hasten.scan.look import Look, called_name, receiver
from hasten.scan.models import model_behind
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name, root_name

LOSS = re.compile(r"loss|err", re.IGNORECASE)


class GraphKept(Rule):
    code = "HST302"
    name = "graph-kept-with-loss"
    why = "What is kept holds on to its graph, so memory grows with every step."
    instead = "Keep `loss.detach()`."
    effort = "a minute"
    nodes = (ast.AugAssign,)
    calls = ("append",)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer):
    total, losses = 0.0, []
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        total += loss  # !
        losses.append(loss)  # !
    return total, losses

def likelihood(model, data):
    found = []
    for x in data:
        score = -0.5 * model(x).square().sum(-1)
        found.append(score - x.sum(-1))  # !
    return torch.cat(found).mean().item()

class Ranking:
    def get_scores(self, dataloader):
        scores = []
        for batch in dataloader:
            scores.append(self.model.scoring_function(batch[0], batch[1]))  # !
        return torch.cat(scores, dim=0)
""",
        """\
import torch

def train(model, loader, optimizer):
    total, losses = 0.0, []
    for x, y in loader:
        loss = model(x, y)
        loss += model.penalty()
        loss.backward()
        optimizer.step()
        total += loss.detach()
        losses.append(loss.item())
    with torch.no_grad():
        for x, y in loader:
            total += model(x, y)
    return total, losses
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.loop is None or look.without_grad(site):
            return
        kept, holder = _kept(site.node)
        if kept is None:
            return
        if only_infers(site.function):
            yield from self._kept_result(kept, site, look)
        elif isinstance(kept, ast.Name) and self._is_step_loss(kept.id, holder, site):
            yield Found(site.node, f"`{kept.id}` is kept with its graph")

    def _is_step_loss(self, name: str, holder: ast.expr | None, site: Site) -> bool:
        if not LOSS.search(name) or not self._runs_backward(name, site):
            return False
        return not self._runs_backward(last_name(root_name(holder)), site)

    def _kept_result(self, kept: ast.expr, site: Site, look: Look) -> Iterator[Found]:
        """Of a function that asks a model for results and nothing more."""
        if isinstance(site.node, ast.AugAssign):
            return
        over_data = any(look.heats.goes_over_batches(each) for each in look.loops(site))
        if not over_data and not _leaves_graph_behind(site):
            return
        model = model_behind(kept, site.function, look, DROPS)
        if model is None and over_data and isinstance(kept, ast.Call):
            model = kept if asks_openly(kept, site.function, look) else None
        if model is None or any(each.changes(model.func) for each in look.loops(site)):
            return  # or the loop goes over models
        if records(model, site.function, look):
            yield Found(site.node, f"`{look.source(kept)}` is kept with its graph", least=Heat.ONCE)

    def _runs_backward(self, name: str, site: Site) -> bool:
        """Whether the same loop calls ``name.backward()``; then the name is that of a step's."""
        return any(
            called_name(each.node) == "backward"
            and each.loop is site.loop
            and name
            in (
                last_name(receiver(each.node)),
                *(last_name(given) for given in each.node.args),
            )
            for each in site.function.calls
        )


def _kept(node: ast.AugAssign | ast.Call) -> tuple[ast.expr | None, ast.expr | None]:
    """What is kept, and by what."""
    if isinstance(node, ast.AugAssign):
        return node.value, node.target
    return (node.args[0] if node.args else None), receiver(node)


def _leaves_graph_behind(site: Site) -> bool:
    """Whether the function makes numbers of what it keeps, so that nobody wants the graph."""
    return any(called_name(each.node) in DROPS for each in site.function.calls)
