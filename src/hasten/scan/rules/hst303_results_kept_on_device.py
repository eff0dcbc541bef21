"""Results of a whole data set, collected on the device."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.inference import is_fallback
from hasten.scan.look import Look, called_name, is_own_attribute, receiver
from hasten.scan.models import model_behind
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_given, last_name

BATCH_END = re.compile(r"^on_(\w+_)?(batch|iteration|step)_end$")
OUTPUTS = re.compile(r"pred|logit|outputs?$|y_?hat|prob")
LITTLE = re.compile(r"loss|critic|latent|represent|^(z|v|v_s|values?|codes?|reps?|mus?)(_|\d|$)")
MADE_SMALL = ("cpu", "numpy", "item", "tolist", "mean", "sum", "argmax", "len", "log_prob")
"""What leaves nothing on the device, or little."""


class ResultsKeptOnDevice(Rule):
    code = "HST303"
    name = "results-kept-on-device"
    why = "Device memory grows with the size of the data set until the loop is over."
    instead = "Move each result to the host in the loop, or write it into a preallocated tensor."
    calls = ("append",)
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
        if not site.node.args:
            return
        kept = site.node.args[0]
        if site.loop is None:
            if _is_kept_by_hook(kept, site):
                yield Found(site.node, f"`{look.source(kept)}` stays on the device for the epoch")
            return
        if _is_small(kept, site):
            return
        if is_fallback(site) or not (look.without_grad(site) or _is_detached(kept, site)):
            return
        holder = receiver(site.node)
        if not isinstance(holder, ast.Name) or not self._over_data(site, look):
            return
        if model_behind(kept, site.function, look, MADE_SMALL) is not None:
            yield Found(site.node, f"`{holder.id}` holds results of the model on the device")

    def _over_data(self, site: Site, look: Look) -> bool:
        return any(look.heats.kind_of(each) is Heat.STEP for each in look.loops(site))


def _is_kept_by_hook(kept: ast.expr, site: Site) -> bool:
    """Whether what is called after each batch keeps the outputs that it is given."""
    return (
        BATCH_END.search(site.function.last_name) is not None
        and is_own_attribute(receiver(site.node))
        and isinstance(kept, ast.Name)
        and kept.id in site.function.parameters
        and OUTPUTS.search(kept.id) is not None
    )


def _is_small(node: ast.expr, site: Site) -> bool:
    """Whether it is called as a loss, a value or a code of few numbers is, or was last given one
    number."""
    if any(LITTLE.search(last_name(each)) for each in (node, receiver(site.node))):
        return True
    return called_name(last_given(node, site.function)) in MADE_SMALL


def _is_detached(node: ast.expr, site: Site) -> bool:
    return called_name(last_given(node, site.function) or node) == "detach"
