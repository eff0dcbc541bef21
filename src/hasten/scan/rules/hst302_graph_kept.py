"""A loss that is added up or collected with the whole graph behind it."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.inference import DROPS, asks_openly, only_infers, records
from hasten.scan.look import COMPARISONS, Look, called_name, is_own_attribute, receiver
from hasten.scan.models import model_behind
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name, root_name
from hasten.scan.vocabulary import words

OUTPUTS = re.compile(r"pred|logit|output|y_?hat|prob|score", re.IGNORECASE)
WITHOUT_GRADIENT = {*DROPS, *COMPARISONS, *words("argmax argmin argsort long int round topk size")}
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
        self.mean += loss * x.size(0) / count  # !
    return total, losses

def likelihood(model, data):
    found = []
    for x in data:
        score = -0.5 * model(x).square().sum(-1)
        found.append(score - x.sum(-1))  # !
    return torch.cat(found).mean().item()

class Trainer:
    def train_step(self, x, y):
        loss = self.model(x, y)
        loss.backward()
        self.total += loss  # !

class Recall:
    def reset(self):
        self.found = self.count = 0

    def update(self, y_pred: torch.Tensor, y_true: torch.Tensor):
        self.found += (y_pred * y_true).sum(dim=0)  # !
        self.count += y_true.sum(dim=0)

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
        total += loss.item() * len(x)
        losses.append(loss.item())
    with torch.no_grad():
        for x, y in loader:
            total += model(x, y)
    return total, losses

class Accuracy:
    def reset(self):
        self.found = self.count = 0

    def update(self, y_pred: torch.Tensor, y_true: torch.Tensor):
        self.found += (y_pred.argmax(-1) == y_true).sum()
        self.found += y_pred.detach().sum()
        self.count += y_pred.size(0)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        kept, holder = _kept(site.node)
        if kept is None or look.without_grad(site):
            return
        if site.loop is None and not is_own_attribute(holder):
            return
        if _is_counted(kept, holder, site, look):
            yield Found(site.node, f"`{look.source(kept)}` is added up with its graph")
            return
        if site.loop is not None and only_infers(site.function):
            yield from self._kept_result(kept, site, look)
            return
        for name in _scaled(kept):
            if self._is_step_loss(name, holder, site):
                yield Found(site.node, f"`{look.source(kept)}` is kept with its graph")
                return

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


def _is_counted(kept: ast.expr, holder: ast.expr | None, site: Site, look: Look) -> bool:
    """Whether a metric, which has a ``reset``, adds up what it computes of a model's outputs."""
    owner = site.function.owner
    if owner is None or "reset" not in owner.methods or not isinstance(site.node, ast.AugAssign):
        return False
    if not is_own_attribute(holder) or not isinstance(kept, ast.Call | ast.BinOp):
        return False
    outputs = {each for each in site.function.parameters if OUTPUTS.search(each)}
    inside = list(walk(kept))
    return (
        any(isinstance(each, ast.Name) and each.id in outputs for each in inside)
        and not any(map(_has_no_gradient, inside))
        and look.value(kept, site).is_tensor
    )


def _has_no_gradient(node: ast.AST) -> bool:
    return isinstance(node, ast.Compare) or called_name(node) in WITHOUT_GRADIENT


def _scaled(node: ast.expr) -> Iterator[str]:
    """``loss`` of ``loss``, ``loss * len(x)`` and ``w * loss / n``."""
    match node:
        case ast.Name(id=name):
            yield name
        case ast.BinOp(op=ast.Mult() | ast.Div(), left=left, right=right):
            yield from _scaled(left)
            yield from _scaled(right)


def _leaves_graph_behind(site: Site) -> bool:
    """Whether the function makes numbers of what it keeps, so that nobody wants the graph."""
    return any(called_name(each.node) in DROPS for each in site.function.calls)
