"""Models that are sent to other processes in each epoch."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class ModelsThroughProcesses(Rule):
    code = "HST656"
    name = "models-through-processes"
    why = (
        "Each call pickles models, optimizers and data, sends them to the workers and their results"
        " back, and on one device the workers still take turns."
    )
    instead = (
        "Keep one process for each model over all epochs, or train them together: a loop, streams"
        " or `torch.func.vmap`; measure."
    )
    effort = "a day"
    risk = "the order of random numbers changes"
    calls = ("delayed",)
    least = Heat.EPOCH
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from joblib import Parallel, delayed

def fit(models, loader, epochs, jobs):
    with Parallel(n_jobs=jobs) as parallel:
        for epoch in range(epochs):
            models = parallel(delayed(train)(model, loader) for model in models)  # !
    return models
""",
        """\
import torch
from joblib import Parallel, delayed

def fit(models, columns, jobs):
    return Parallel(n_jobs=jobs)(delayed(train)(each) for each in columns)
""",
        """\
import torch
from mine import delayed

def fit(model, epochs):
    for epoch in range(epochs):
        delayed(model)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        name = look.dotted(site.node.func)
        if not name.startswith("joblib."):
            return
        if any(look.heats.kind_of(each) is not None for each in look.loops(site)):
            yield Found(site.statement, "models go to other processes and back in each epoch")
