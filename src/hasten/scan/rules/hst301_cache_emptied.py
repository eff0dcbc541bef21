"""The allocator's cache or the garbage collector, again and again."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Fix
from hasten.scan.edits import leave_out
from hasten.scan.heat import Heat
from hasten.scan.look import Look, are_alternatives, names_in
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

ABOUT = "Leaves it out: other programs on the device may get less memory."

WHOLE = re.compile(
    r"fold|trial|run(s|_|$)|seed|replicate|repeat|experiment|config|model|checkpoint|ckpt|method"
    r"|baseline|dataset|pipeline|result|estimator|ensemble|network|volume|subject|scenario",
    re.IGNORECASE,
)
"""What whole trainings are made of: between two of them memory may well be given back."""
PREDICTS = re.compile(r"predict|infer|sliding_window", re.IGNORECASE)
"""How functions are called that may take a whole image or volume."""
BETWEEN = (
    "Leave it out if the largest input still fits: memory of one size is of no use to an input of"
    " another."
)


class CacheEmptied(Rule):
    code = "HST301"
    name = "cache-emptied-in-loop"
    why = (
        "It waits for the device and gives back memory that the next step has to ask for again; the"
        " peak stays the same."
    )
    instead = "Leave it out; `del` what is large and no longer needed."
    effort = "a minute"
    calls = ("empty_cache", "collect")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import gc
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        model(x, y).backward()
        optimizer.step()
        torch.cuda.empty_cache()  # !
        gc.collect()  # !
""",
        """\
import gc
import torch

def train(model, loader, optimizer):
    for step, (x, y) in enumerate(loader):
        try:
            model(x, y).backward()
        except RuntimeError:
            torch.cuda.empty_cache()
        optimizer.step()
        if step % 1000 == 0:
            gc.collect()
    torch.cuda.empty_cache()

def largest_batch(model, size):
    while size > 1 and not fits(model, size):
        gc.collect()
        size //= 2
    return size
""",
        """\
import torch
from gc import collect
from torch.cuda import empty_cache
from tqdm import tqdm

class Projector:
    def project(self, count):
        for i in tqdm(range(count), desc="Projecting"):
            if self.is_cuda:
                empty_cache()  # !
            self.table[i] = self.row(i)
            collect()  # !

def fit(model, loader, epochs):
    for epoch in range(epochs):
        train_epoch(model, loader)
        if model.device == "mps":
            torch.mps.empty_cache()  # !
        else:
            torch.cuda.empty_cache()
""",
        """\
import torch
from mine import collect

def rollout(env, steps):
    for step in range(steps):
        collect(env)

def compare(models, loader, seeds):
    for model in models:
        evaluate(model, loader)
        torch.cuda.empty_cache()
    for seed in seeds:
        train(seed)
        torch.cuda.empty_cache()

def moved(pipeline_results):
    for pipeline_result in pipeline_results:
        pipeline_result.model.cpu()
        torch.cuda.empty_cache()
        yield pipeline_result

def release(model):
    del model
    torch.cuda.empty_cache()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        called = look.dotted(site.node.func)
        if site.called != "empty_cache" and called != "gc.collect":
            return
        if _is_said_for_another_device(site, look):
            return
        yield Found(
            site.node,
            f"`{called}` runs again and again",
            _fix(site, look),
            least=Heat.ONCE if _comes_round(site, look) else None,
        )


def _fix(site: Site, look: Look) -> Fix | None:
    """Where whole images or volumes are predicted, what each needs must fit beside what the one
    before has left."""
    if site.loop is None and PREDICTS.search(site.function.last_name):
        return Fix(safety="display", about=BETWEEN)
    return leave_out(site, look.lines, ABOUT)


def _is_said_for_another_device(site: Site, look: Look) -> bool:
    """Whether it is a later branch of a choice between kinds of devices."""
    above = look.calls_in(site.function, "empty_cache")
    return site.called == "empty_cache" and any(
        each.node.lineno < site.node.lineno and are_alternatives(each, site) for each in above
    )


def _comes_round(site: Site, look: Look) -> bool:
    """Whether a loop runs it in each of its turns, whatever small things the loop goes over;
    ``while`` only if it is one of steps, since others look for what fits into memory."""
    if site.loop is None or look.is_rare(site):
        return False
    if look.heats.kind_of(site.loop) is not None:
        return True
    target, over = site.loop.header()
    if target is None or any(
        WHOLE.search(each) for node in (target, over) for each in names_in(node)
    ):
        return False
    return isinstance(site.loop.node, ast.For)
