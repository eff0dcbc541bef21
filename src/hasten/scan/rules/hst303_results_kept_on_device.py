"""Results of a whole data set, collected on the device."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.inference import is_fallback, is_without_grad, only_infers
from hasten.scan.look import QUIET, Look, called_name, is_own_attribute, receiver
from hasten.scan.models import model_behind
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import calls_in, is_bound_in, last_given, last_name, root_name, site_of

BATCH_END = re.compile(r"^on_(\w+_)?(batch|iteration|step)_end$")
OUTPUTS = re.compile(r"pred|logit|outputs?$|y_?hat|prob")
LITTLE = re.compile(
    r"loss|critic|latent|represent|log_?(p|q|prob|lik)|nll|elbo|^(z|v|v_s|values?|codes?|reps?|mus?)(_|\d|$)"
)
MADE_SMALL = ("cpu", "numpy", "item", "tolist", "mean", "sum", "argmax", "len", "log_prob")
"""What leaves nothing on the device, or little."""
TO_HOST = ("cpu", "numpy", "item", "tolist")


class ResultsKeptOnDevice(Rule):
    code = "HST303"
    name = "results-kept-on-device"
    why = "Device memory grows with the size of the data set until the loop is over."
    instead = "Move each result to the host in the loop, or write it into a preallocated tensor."
    calls = ("append", "extend")
    nodes = (ast.AugAssign,)
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def predict(model, loader):
    results = []
    with torch.no_grad():
        for x in loader:
            out = model(x)
            results.append(out)  # !
    return results

class Keeper:
    def on_batch_end(self, batch, y_pred):
        self.targets.append(batch[1])
        self.predictions.append(y_pred)  # !
        self.first.append(y_pred[0])  # !

def gather(model, loader):
    found = []
    for x in loader:
        with torch.no_grad():
            out = model(x)
        found.append(out)  # !
    return torch.cat(found)

class Evaluator:
    def evaluate(self, loader):
        self.seen = {"logits": [], "probs": []}
        with torch.inference_mode():
            for x, y in loader:
                logits = self.model(x)
                self.seen["logits"].append(logits)  # !
                self.seen["probs"].extend(logits.softmax(-1))  # !
                self.seen["probs"] += [logits.sigmoid()]  # !
                self.seen["both"].append((logits, y))  # !

    def predict_all(self, loader):
        found = []
        for x in loader:
            found.append(self.model(x))  # !
        return found

    @torch.no_grad()
    def run(self, loader):
        return self.predict_all(loader)

@torch.no_grad()
def embed(model, loader):
    everything = []
    for x in loader:
        rows = []
        for row in model(x):
            rows.append(row)  # !
        everything.extend(rows)
    return everything

def sample(decoder, batches):
    images = []
    for i in range(batches):
        image = decoder(torch.randn(64, 8))["image"].detach()
        images.append(image)  # !
    return torch.cat(images)
""",
        """\
import torch

def predict(model, loader):
    results, layers, codes = [], [], []
    with torch.no_grad():
        for x in loader:
            out = model(x)
            results.append(out.cpu())
            score = model(x).mean()
            layers.append(score)
            error = model(x)
            error = torch.mean(error)
            layers.append(error)
            z = encoder(x)
            codes.append(z)
    return results

@torch.no_grad()
def ensemble(models, loader):
    outs = [model(loader) for model in models]
    for model in models:
        outs.append(model(loader))
    for x in loader:
        views = []
        for view in x:
            views.append(models[0](view))
        mean = sum(views) / len(views)
        rows = mean.cpu()
        for row in rows:
            outs.append(row)
    return outs

class Counter:
    def on_batch_end(self, batch, y_pred):
        self.right.append((y_pred == batch[1]).sum())
        self.predictions.append(y_pred.cpu())

def train(model, loader, optimizer):
    outs = []
    for x, y in loader:
        out = model(x)
        outs.append(out)
    return torch.cat(outs)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        holder, parts = _kept(site.node)
        if site.loop is None:
            if any(_is_kept_by_hook(each, holder, site) for each in parts):
                said = f"`{look.source(parts[0])}` stays on the device for the epoch"
                yield Found(site.node, said)
            return
        if holder is None or is_fallback(site) or not self._over_data(holder, site, look):
            return
        if LITTLE.search(last_name(holder)):
            return
        if any(self._is_result(each, site, look) for each in parts):
            said = f"`{look.source(holder)}` holds results of the model on the device"
            yield Found(site.node, said)

    def _is_result(self, kept: ast.expr, site: Site, look: Look) -> bool:
        """Of a model, on the device, and without a graph."""
        if _is_small(kept, site) or _is_elsewhere(kept, site, look):
            return False
        model = model_behind(kept, site.function, look, MADE_SMALL)
        if model is None or any(each.changes(model.func) for each in look.loops(site)):
            return False  # or the loop goes over models
        asked = site_of(model, site.function) or site
        if look.without_grad(asked) or look.without_grad(site) or _is_detached(kept, site):
            return True
        if not only_infers(site.function):
            return False
        return bool(QUIET.search(look.text)) and is_without_grad(model, site.function, look)

    def _over_data(self, holder: ast.expr, site: Site, look: Look) -> bool:
        """Whether it is filled by a loop of steps, and not anew in each to be used at once."""
        name = root_name(holder)
        steps = [each for each in look.loops(site) if look.heats.kind_of(each) is Heat.STEP]
        if name is None or not steps:
            return False
        return not is_bound_in(name.id, steps[-1]) or _is_passed_on(name.id, steps[-1])


def _is_passed_on(name: str, loop: Loop) -> bool:
    """Whether a loop adds a list to another one."""
    return any(
        each.called in ("append", "extend")
        and any(isinstance(given, ast.Name) and given.id == name for given in each.node.args)
        for each in calls_in(loop)
    )


def _kept(node: ast.Call | ast.AugAssign) -> tuple[ast.expr | None, list[ast.expr]]:
    """A list, and what it keeps from there on."""
    match node:
        case ast.AugAssign(op=ast.Add(), target=target, value=ast.List(elts=parts)):
            return target, parts
        case ast.Call(args=[ast.Tuple(elts=parts) | ast.List(elts=parts)]):
            return receiver(node), parts
        case ast.Call(args=[ast.Dict(values=parts)]):
            return receiver(node), parts
        case ast.Call(args=[kept]):
            return receiver(node), [kept]
    return None, []


def _is_elsewhere(node: ast.expr, site: Site, look: Look) -> bool:
    """Whether it was brought to the host before, or is no tensor; of a function of one's own, what
    it brings to the host is left out."""
    value = look.value(node, site)
    if value.where == "host" or value.kind in ("array", "number", "text") or _is_moved(node):
        return True
    owner = site.function.owner
    if isinstance(node, ast.Call) and is_own_attribute(node.func) and owner is not None:
        own = owner.methods.get(called_name(node))
        return own is not None and not own.called.isdisjoint(TO_HOST)
    return False


def _is_moved(node: ast.expr) -> bool:
    """``out.to(storage)``, to wherever that is."""
    return called_name(node) == "to" and isinstance(node, ast.Call) and bool(node.args)


def _is_kept_by_hook(kept: ast.expr, holder: ast.expr | None, site: Site) -> bool:
    """Whether what is called after each batch keeps the outputs that it is given."""
    return (
        BATCH_END.search(site.function.last_name) is not None
        and is_own_attribute(holder)
        and _is_given_outputs(kept, site)
    )


def _is_given_outputs(kept: ast.expr, site: Site) -> bool:
    """Whether it is a parameter that holds outputs, or a part of one."""
    while isinstance(kept, ast.Subscript):
        kept = kept.value
    return (
        isinstance(kept, ast.Name)
        and kept.id in site.function.parameters
        and OUTPUTS.search(kept.id) is not None
    )


def _is_small(node: ast.expr, site: Site) -> bool:
    """Whether it is called as a loss, a value or a code of few numbers is, or was last given one
    number."""
    if LITTLE.search(last_name(node)):
        return True
    return called_name(last_given(node, site.function)) in MADE_SMALL


def _is_detached(node: ast.expr, site: Site) -> bool:
    return called_name(last_given(node, site.function) or node) == "detach"
