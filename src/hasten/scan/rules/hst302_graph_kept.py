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
from hasten.scan.outline import STEPS, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import FOLLOWED, last_given, last_name, names, root_name
from hasten.scan.vocabulary import words

OUTPUTS = re.compile(r"pred|logit|output|y_?hat|prob|score", re.IGNORECASE)
WITHOUT_GRADIENT = (
    *DROPS, *COMPARISONS, *words(
        "argmax argmin argsort long int short byte round topk size nonzero argwhere bincount"
        " count_nonzero bucketize searchsorted multinomial"
    ),
)  # fmt: skip
GIVE_PLACES = words("max min sort topk median mode kthvalue cummax cummin")
"""What gives values, and as the second of two where they were found."""
WHOLE = words("long int int64 int32 int16 int8 uint8 short bool")
LOSS = re.compile(r"loss|err|elbo|nll|cost|objective|(^|_)(kld?|recon|penalty)(_|$)", re.IGNORECASE)
PART = re.compile(r"loss|(^|_)(kld?|recon|nll|penalty)(_|$)", re.IGNORECASE)
"""What terms of a loss are called, and no weights of them."""


class GraphKept(Rule):
    code = "HST302"
    name = "graph-kept-with-loss"
    why = "What is kept holds on to its graph, so memory grows with every step."
    instead = "Keep `loss.detach()`."
    effort = "a minute"
    nodes = (ast.AugAssign, ast.Assign)
    assigned = (ast.BinOp,)
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

class Steps:
    def train_step(self, x, y):
        loss = self.model(x, y)
        loss.backward()
        return loss

    def fit(self, loader):
        total = 0.0
        for x, y in loader:
            loss = self.train_step(x, y)
            total += loss  # !
        return total

def train_parts(model, loader, optimizer, scaler):
    total, found, sums = 0.0, [], {"kl": 0.0}
    for x, y in loader:
        recon_loss, kl = model(x, y)
        loss = recon_loss + 0.1 * kl
        scaler.scale(loss / 4).backward()
        total = total + loss  # !
        sums["kl"] += kl  # !
        found.append({"loss": loss, "count": len(x)})  # !
        found.append((recon_loss, len(x)))  # !

class Fitted:
    def training_step(self, batch, number):
        loss = self.objective(batch)
        result = {"loss": loss, "rows": len(batch)}
        self.steps.append(result)  # !
        self.losses.append(loss)  # !
        self.sizes.append({"rows": len(batch)})
        self.seen.append(loss.detach())
        return result

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

def predict_scores(model, loader):
    found = []
    for x in loader:
        out = model(x)
        best, _ = out.max(1)
        found.append(best)  # !
    return torch.cat(found)
""",
        """\
import torch

def predict(model, loader):
    found = []
    for x in loader:
        out = model(x)
        _, best = out.max(1)
        second = out.topk(2).indices
        found.append(out.argmax(1))
        found.append(torch.argsort(out, 1)[:, 0])
        found.append(out > 0)
        found.append((out.sigmoid() > 0.5).float())
        found.append(best)
        found.append(best.view(-1))
        found.append(best.to(x.device))
        found.append(second)
        found.append(out.max(1)[1].squeeze())
        found.append(out.round().to(torch.long))
    return torch.cat(found)
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

def train_views(model, loader, optimizer):
    total = 0.0
    for views, y in loader:
        view_loss = 0
        for view in views:
            one_loss = model(view, y)
            view_loss += one_loss
        loss = view_loss / len(views)
        loss.backward()
        optimizer.step()
        loss = loss.item()
        total += loss
    return total

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
        if site.loop is None and not is_own_attribute(_whole(holder)):
            return
        if _is_counted(kept, holder, site, look):
            yield Found(site.node, f"`{look.source(kept)}` is added up with its graph")
            return
        if site.loop is not None and only_infers(site.function):
            yield from self._kept_result(kept, site, look)
            return
        for part in _parts(kept, site):
            if any(_is_step_loss(each, holder, site, look) for each in _scaled(part)):
                yield Found(site.node, f"`{look.source(part)}` is kept with its graph")
                return

    def _kept_result(self, kept: ast.expr, site: Site, look: Look) -> Iterator[Found]:
        """Of a function that asks a model for results and nothing more."""
        if isinstance(site.node, ast.AugAssign | ast.Assign):
            return
        if look.value(kept, site).kind in ("array", "number") or _is_whole(kept, site):
            return
        over_data = any(look.heats.goes_over_batches(each) for each in look.loops(site))
        if not over_data and not _leaves_graph_behind(site):
            return
        model = model_behind(kept, site.function, look, WITHOUT_GRADIENT)
        if model is None and over_data and isinstance(kept, ast.Call):
            model = kept if asks_openly(kept, site.function, look) else None
        if model is None or any(each.changes(model.func) for each in look.loops(site)):
            return  # or the loop goes over models
        if records(model, site.function, look):
            yield Found(site.node, f"`{look.source(kept)}` is kept with its graph", least=Heat.ONCE)


def _kept(node: ast.AugAssign | ast.Assign | ast.Call) -> tuple[ast.expr | None, ast.expr | None]:
    """What is kept, and by what: of ``total = total + loss`` the loss."""
    match node:
        case ast.AugAssign(op=ast.Add(), value=value, target=target):
            return value, target
        case ast.Assign(targets=[target], value=ast.BinOp(op=ast.Add(), left=left, right=right)):
            if last_name(target) and last_name(target) == last_name(left):
                return right, target
        case ast.Call(args=[kept]):
            return kept, receiver(node)
    return None, None


def _whole(holder: ast.expr | None) -> ast.expr | None:
    """``self.sums`` of ``self.sums["loss"]``."""
    while isinstance(holder, ast.Subscript):
        holder = holder.value
    return holder


def _parts(kept: ast.expr, site: Site) -> list[ast.expr]:
    """Of a tuple, a list or a dict that is kept as a whole, by its name or as it stands there."""
    given = last_given(kept, site.function) if isinstance(kept, ast.Name) else kept
    match given:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            return parts
    return [kept]


def _is_step_loss(name: ast.Name, holder: ast.expr | None, site: Site, look: Look) -> bool:
    """Whether it went back in this turn, by itself or in a sum, and what keeps it does not."""
    if not LOSS.search(name.id) or look.value(name, site).kind in ("number", "array"):
        return False
    given = last_given(name, site.function)
    if called_name(given) in DROPS:
        return False
    passes = [each for each in site.function.calls if _goes_back(each, site)]
    if not passes:
        return name.id in _sent_by_framework(site) or _is_given_by_step(given, site, look)
    sent = {each for one in passes for each in _sent(one)}
    behind = _behind(sent, site)
    held = root_name(holder)
    if held is not None and held.id in behind:
        return False
    return name.id in sent or (name.id in behind and bool(PART.search(name.id)))


def _goes_back(call: Site, site: Site) -> bool:
    """Whether it is a backward pass of the turn that the place belongs to."""
    if called_name(call.node) not in STEPS:
        return False
    if site.loop is None or call.loop is None:
        return call.loop is site.loop
    return any(each is site.loop for each in call.loop.outwards())


def _sent(call: Site) -> set[str]:
    """``loss`` of ``loss.backward()``, ``scaler.scale(loss / n).backward()`` and
    ``accelerator.backward(loss)``."""
    held = receiver(call.node)
    about = [held, *call.node.args] if held is not None else call.node.args
    return {each for one in about for each in names(one)}


def _sent_by_framework(site: Site) -> set[str]:
    """What a ``training_step`` gives back, for others to send back."""
    if site.function.last_name != "training_step":
        return set()
    given = (each for one in site.function.returns for each in _parts(one, site))
    return {each.id for each in given if isinstance(each, ast.Name)}


def _behind(sent: set[str], site: Site) -> set[str]:
    """With the terms that these are sums of."""
    found = set(sent)
    for _ in range(FOLLOWED):
        more = {
            each
            for name in found
            for binding in site.function.bindings.get(name, ())
            if binding.value is not None
            and (binding.how == "changed" or isinstance(binding.value, ast.BinOp))
            for each in names(binding.value)
        }
        if more <= found:
            break
        found |= more
    return found


def _is_given_by_step(given: ast.expr | None, site: Site, look: Look) -> bool:
    """Whether a function of this file gives it that has sent it back: ``loss = self.step(x)``."""
    if site.loop is None or not isinstance(given, ast.Call):
        return False
    match given.func:
        case ast.Name(id=name):
            called = look.outline.function_named(name)
        case ast.Attribute(value=ast.Name(id="self"), attr=name) if site.function.owner is not None:
            called = site.function.owner.methods.get(name)
        case _:
            return False
    if called is None or len(called.returns) != 1:
        return False
    sent = {each for one in called.calls if one.called in STEPS for each in _sent(one)}
    return (
        last_name(called.returns[0]) in sent
        and called_name(last_given(called.returns[0], called)) not in DROPS
    )


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


def _is_whole(kept: ast.expr, site: Site) -> bool:
    """Whether it is of whole numbers: places such as ``out.max(1)[1]``, or a type that says so."""
    match kept:
        case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=1)):
            return called_name(call) in GIVE_PLACES
        case ast.Attribute(attr="indices"):
            return True
        case ast.Call(func=ast.Attribute(value=held, attr=name)):
            types = kept.args[:1] if name in ("to", "type") else []
            return any(last_name(each) in WHOLE for each in types) or _is_whole(held, site)
        case ast.Name():
            return _is_place(kept, site)
    return False


def _is_place(name: ast.Name, site: Site) -> bool:
    """``places`` after ``values, places = out.max(1)``."""
    above = [each for each in site.function.bindings.get(name.id, ()) if each.line < name.lineno]
    if not above or above[-1].value is None:
        return False
    if above[-1].how == "item":
        return above[-1].path == (1,) and called_name(above[-1].value) in GIVE_PLACES
    return above[-1].how == "value" and _is_whole(above[-1].value, site)


def _scaled(node: ast.expr) -> Iterator[ast.Name]:
    """``loss`` of ``loss``, ``loss * len(x)`` and ``w * loss / n``."""
    match node:
        case ast.Name():
            yield node
        case ast.BinOp(op=ast.Mult() | ast.Div(), left=left, right=right):
            yield from _scaled(left)
            yield from _scaled(right)


def _leaves_graph_behind(site: Site) -> bool:
    """Whether the function makes numbers of what it keeps, so that nobody wants the graph."""
    return not site.function.called.isdisjoint(DROPS)
