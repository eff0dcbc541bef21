"""Training mode, switched on for dropout alone."""

import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import backwards

SAMPLES = re.compile(r"mc_|monte|dropout|uncertain|bayes|stochastic|epistemic", re.IGNORECASE)


class TrainModeForDropout(Rule):
    code = "HST653"
    name = "train-mode-for-dropout"
    why = (
        "Training mode also makes BatchNorm use and change its statistics: predictions depend on"
        " their batch, and the model is another one afterwards."
    )
    instead = "Keep `model.eval()`, and call `train()` on the dropout layers only."
    risk = "predictions change where the model has BatchNorm"
    verify = "Compare the model's buffers before and after."
    calls = ("train",)
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

@torch.no_grad()
def mc_dropout(model, x, samples):
    model.train()  # !
    return torch.stack([model(x) for _ in range(samples)])
""",
        """\
import torch

class Net(torch.nn.Module):
    def predict_with_uncertainty(self, x):
        self.train()  # !
        with torch.no_grad():
            return torch.stack([self(x) for _ in range(20)])
""",
        """\
import torch

@torch.no_grad()
def mc_dropout(model, x, samples):
    model.eval()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.train()
    return torch.stack([model(x) for _ in range(samples)])
""",
        """\
import torch

@torch.no_grad()
def uncertainty(model, x):
    model.eval()
    out = model(x)
    model.train()
    return out

def dropout_of(dropout, x):
    dropout.train()
    return dropout(x)

def train_bayesian(model, x):
    model.train()
    model(x).backward()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        on = receiver(site.node)
        if on is None or site.node.args or not SAMPLES.search(site.function.last_name):
            return
        whose = look.source(on)
        if "drop" in whose.lower():
            return
        runs = any(
            look.source(each.node.func) in (whose, f"{whose}.forward")
            for each in site.function.calls
            if each.node.lineno > site.node.lineno
        )
        if runs and not any(backwards(site.function, look)):
            yield Found(site.node, f"`{whose}.train()` also lets BatchNorm change")
