"""A model trained under autocast and evaluated in full precision."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.inference import only_infers
from hasten.scan.look import Look, called_name
from hasten.scan.models import LOSSES, is_model_call
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name

NO_GRAD = ("no_grad", "inference_mode")


class EvaluatedWithoutAutocast(Rule):
    code = "HST438"
    name = "evaluated-without-autocast"
    why = "The same model takes longer to evaluate than to train forward, in twice the memory."
    instead = "Put the call under the same `torch.autocast` as in training."
    risk = "rounding: fewer digits, as in training"
    effort = "a minute"
    calls = ("autocast", *NO_GRAD)
    least = Heat.ONCE
    severity = "low"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from apex import amp

class Classifier:
    def train(self, loader, optimizer):
        if self.args["fp16"]:
            self.model, optimizer = amp.initialize(self.model, optimizer, opt_level="O1")

    def evaluate(self, loader):
        model = self.model
        for batch in loader:
            with torch.no_grad():
                outputs = model(**batch)  # !
        return outputs

    def predict(self, loader):
        for batch in loader:
            with torch.no_grad(), torch.autocast("cuda"):
                outputs = self.model(**batch)
        return outputs
""",
        """\
import torch

class Brain:
    def fit_batch(self, batch):
        with torch.autocast("cuda"):
            loss = self.compute_forward(batch)
        loss.backward()

    def evaluate_batch(self, batch):
        out = self.compute_forward(batch)  # !
        return out.detach().cpu()
""",
        """\
import torch

class Brain:
    def fit_batch(self, batch):
        with torch.autocast("cuda"):
            loss = self.compute_forward(batch)
        loss.backward()

    def evaluate_batch(self, batch):
        with torch.autocast("cuda"):
            out = self.compute_forward(batch)
        return out.detach().cpu()

    def compute_forward(self, batch):
        return self.model(batch)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.called in NO_GRAD:
            yield from _in_full_precision(site, look)
            return
        owner = site.function.owner
        if owner is None or not isinstance(site.statement, ast.With) or only_infers(site.function):
            return
        run = {
            _method(each)
            for each in site.function.calls
            if each.block is not None and _is_cast(each, site.statement)
        }
        for function in owner.methods.values():
            if function is site.function or not only_infers(function):
                continue
            for each in function.calls:
                if _method(each) in run - {""} and not _is_cast(each):
                    said = f"`self.{_method(each)}` runs under autocast in training, and not here"
                    yield Found(each.node, said)
                    break


def _in_full_precision(site: Site, look: Look) -> Iterator[Found]:
    """The first model that a loop runs without gradients, in a file where half precision is a
    matter of choice and not of this function."""
    function = site.function
    if site.loop is None or not isinstance(site.statement, ast.With) or not only_infers(function):
        return
    if not CHOICE.search(look.text) or CHOICE.search(look.text_of(function)):
        return
    for each in function.calls:
        if site.statement.lineno < each.node.lineno <= (
            site.statement.end_lineno or 0
        ) and is_model_call(each.node, function, look):
            said = f"`{look.source(each.node.func)}` runs in full precision, unlike in training"
            yield Found(each.node, said)
            return


CHOICE = re.compile(r"autocast|fp16|use_amp|mixed_precision|bf16|\.half\(|bfloat16")


def _method(site: Site) -> str:
    """``forward`` of ``self.forward(x)``; empty for a loss and for what is no attribute."""
    called = site.node.func
    if not isinstance(called, ast.Attribute) or last_name(called.value) != "self":
        return ""
    return "" if LOSSES.search(called.attr) else called.attr


def _is_cast(site: Site, statement: ast.With | None = None) -> bool:
    """Whether it runs under autocast: under that of a statement, or under any."""
    blocks = site.block.outwards() if site.block is not None else ()
    around = [each.node for each in blocks if isinstance(each.node, ast.With)]
    if statement is not None:
        return statement in around
    return any(called_name(item.context_expr) == "autocast" for w in around for item in w.items)
