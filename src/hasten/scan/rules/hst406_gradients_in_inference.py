"""A model that is only asked for predictions, while gradients are recorded."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Fix
from hasten.scan.edits import fix_of
from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, receiver
from hasten.scan.models import is_model_call, model_behind
from hasten.scan.outline import Function, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import operands, root_name, site_of

INFERS = re.compile(
    r"predict|sampl|encod|evaluat|explain|infer|generat|embed|(^|_)test|valid|score|impute"
    r"|extract|reconstruct|classif|detect|segment|translate|forecast|transform|decision|(^|_)eval"
)
HOOKS = re.compile(r"^(forward|__init__|(training|train|validation|test|predict|val)_step)$")
"""Others run these, and record gradients or do not."""


class GradientsInInference(Rule):
    code = "HST406"
    name = "gradients-in-inference"
    why = (
        "Every activation is kept for a backward pass that never comes: memory grows, and each"
        " operation takes longer to launch."
    )
    instead = "Put the loop under `with torch.no_grad():`, or `torch.inference_mode()`."
    effort = "a minute"
    calls = ("detach", "cpu", "numpy", "eval")
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Net:
    def predict(self, loader):
        self.network.eval()
        results = []
        for x in loader:
            output, _ = self.network(x)  # !
            results.append(output.cpu().detach().numpy())
        return results

    def sample(self, n):
        fake = self.generator(torch.randn(n, 8))  # !
        shown = torch.tanh(fake)
        return shown.detach().cpu().numpy()
""",
        """\
import torch

def evaluate(model, loader, criterion):
    model.eval()
    total = 0.0
    for x, y in loader:
        out = model(x)  # !
        total += criterion(out, y).item()
    return total
""",
        """\
import torch

def train(model, teacher_model, loader, optimizer):
    for x in loader:
        target = teacher_model(x).detach()  # !
        out = model(x)
        loss = (out - target).pow(2).mean() + (out.detach() - x).mean()
        loss.backward()
        optimizer.step()
""",
        """\
import torch

class Net:
    @torch.no_grad()
    def predict(self, x):
        return self.network(x).cpu().numpy()

    def sample(self, x):
        with torch.inference_mode():
            out = self.network(x)
        return out.cpu().numpy()

    def _encode(self, x):
        return self.network(x).cpu().numpy()

    def all(self, loader):
        with torch.no_grad():
            return [self._encode(x) for x in loader]

    def sample_and_train(self, x):
        loss = self.network(x)
        loss.backward()
        return loss.detach().cpu()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        function = site.function
        if HOOKS.match(function.last_name) or not INFERS.search(function.last_name.lower()):
            yield from self._dropped_at_once(site, look)
            return
        if called_name(site.node) == "eval":
            model = None if site.node.args else _first_model_call(function, look)
        else:
            model = model_behind(operands(site.node)[0], function, look)
        if model is None or not self._records(model, function, look):
            return
        message = f"`{look.source(model.func)}` records gradients that nothing uses"
        yield Found(model, message, _decorate(function, look))

    def _dropped_at_once(self, site: Site, look: Look) -> Iterator[Found]:
        """``target(x).detach()`` in a step of training."""
        made = receiver(site.node)
        while isinstance(made, ast.Subscript | ast.Attribute):
            made = made.value
        if called_name(site.node) != "detach" or not isinstance(made, ast.Call):
            return
        if is_model_call(made, site.function, look) and not look.without_grad(site):
            said = f"`{look.source(made.func)}` records gradients that are dropped at once"
            yield Found(made, said, least=Heat.STEP)

    def _records(self, model: ast.Call, function: Function, look: Look) -> bool:
        place = site_of(model, function)
        if place is None or look.without_grad(place):
            return False
        if any(called_name(each.node) in NEED_GRADIENTS for each in function.calls):
            return False
        return not any(look.without_grad(each) for each in _callers(function, look))


def _decorate(function: Function, look: Look) -> Fix | None:
    """Right above ``def``, below other decorators."""
    torch = look.outline.name_of("torch")
    if torch is None or not isinstance(function.node, ast.FunctionDef):
        return None
    start = look.lines.offset(function.node.lineno, function.node.col_offset)
    indentation = look.lines.indentation(start)
    if indentation is None:
        return None
    line = f"@{torch}.no_grad(){look.lines.newline(start)}{indentation}"
    about = f"`{function.last_name}` records no gradients, whoever calls it."
    return fix_of("unsafe", about, look.lines.edit(start, start, line))


NEED_GRADIENTS = ("backward", "grad", "step", "requires_grad_", "set_grad_enabled", "enable_grad")


def _first_model_call(function: Function, look: Look) -> ast.Call | None:
    return next(
        (
            each.node
            for each in function.calls
            if each.loop is not None and is_model_call(each.node, function, look)
        ),
        None,
    )


def _callers(function: Function, look: Look) -> Iterator[Site]:
    """Calls of the function in its own file."""
    name = function.last_name
    for other in look.outline.functions:
        for each in other.calls:
            if called_name(each.node) == name and root_name(each.node) is not None:
                yield each
