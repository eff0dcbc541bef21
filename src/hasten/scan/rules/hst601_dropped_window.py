"""Accumulation that drops the last batches of an epoch."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, names_in
from hasten.scan.nodes import walk
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import Window, optimizer_steps, steps_optimizer, window_of

LAST = re.compile(r"last|final|total|^len$|(^|_)end|num_batches|n_batches", re.IGNORECASE)
ENDLESS = re.compile(r"cycle|infinite|endless|forever|repeat|islice|^range$|^count$", re.IGNORECASE)


class DroppedWindow(Rule):
    code = "HST601"
    name = "dropped-accumulation-window"
    why = (
        "Where the number of batches is no multiple of the window, the gradients of the last ones"
        " are thrown away, or leak into the first step of the next epoch."
    )
    instead = "Step also at the last batch: `or i + 1 == len(loader)`."
    risk = "one more step an epoch, as it was meant"
    verify = "Count the optimizer's steps of an epoch."
    calls = ("step",)
    least = Heat.ONCE
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer, k):
    for i, (x, y) in enumerate(loader):
        (model(x, y) / k).backward()
        if (i + 1) % k == 0:  # !
            optimizer.step()
            optimizer.zero_grad()
""",
        """\
import torch

class Trainer:
    def fit(self):
        for epoch in range(self.epochs):
            for step, batch in enumerate(self.train_loader):
                loss = self.model(**batch).loss / self.args.accumulate
                self.scaler.scale(loss).backward()
                if not (step + 1) % self.args.accumulate:  # !
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
                    self.optimizer.zero_grad()
""",
        """\
import torch

def train(model, loader, optimizer, k):
    for i, (x, y) in enumerate(loader):
        should_step = (i + 1) % k == 0
        (model(x, y) / k).backward()
        if should_step:  # !
            optimizer.step()
            optimizer.zero_grad()
""",
        """\
import torch

class Trainer:
    def fit_batch(self, batch):
        self.step += 1
        should_step = self.step % self.window == 0  # !
        (self.compute(batch) / self.window).backward()
        if should_step:
            self.optimizer.step()
            self.optimizer.zero_grad()
""",
        """\
import torch

class Trainer:
    def fit_batch(self, batch):
        (self.compute(batch) / self.window).backward()
        if self.step % self.window == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()

    def on_epoch_end(self):
        self.optimizer.step()
""",
        """\
import torch

def train(model, loader, optimizer, k):
    for i, (x, y) in enumerate(loader):
        (model(x, y) / k).backward()
        if (i + 1) % k == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
        """\
import torch

def train(model, loader, optimizer, k):
    for i, (x, y) in enumerate(loader):
        (model(x, y) / k).backward()
        if (i + 1) % k == 0:
            optimizer.step()
            optimizer.zero_grad()
    if (i + 1) % k:
        optimizer.step()
        optimizer.zero_grad()
""",
        """\
import torch

def train(model, batches, optimizer, k, steps, loader):
    for step in range(steps):
        (model(next(batches)) / k).backward()
        if (step + 1) % k == 0:
            optimizer.step()
            optimizer.zero_grad()
    for step, x in enumerate(loader):
        if step % 4 == 0:
            model(x).backward()
            optimizer.step()
            optimizer.zero_grad()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if not steps_optimizer(site, look):
            return
        window = window_of(site, look)
        if window is None or _minds_the_last(window.condition):
            return
        words = look.source(window.condition)
        message = f"`if {words}` leaves the last batches of an epoch out"
        if window.loop is None:
            if site.function.owner is not None and not _steps_elsewhere(window, look):
                yield Found(window.condition, message)
        elif _ends(window.loop) and not _steps_later(window, window.loop, look):
            yield Found(window.test, message)


def _ends(loop: Loop) -> bool:
    """Whether it goes over the batches of an epoch."""
    target, over = loop.header()
    return target is not None and not any(ENDLESS.search(each) for each in names_in(over))


def _minds_the_last(test: ast.expr) -> bool:
    either = any(isinstance(each, ast.Or) for each in walk(test))
    calls = any(
        isinstance(each, ast.Call) and called_name(each) not in ("int",) for each in walk(test)
    )
    return either or calls or any(LAST.search(each) for each in names_in(test))


def _steps_elsewhere(window: Window, look: Look) -> bool:
    """Whether another method of the class may do the last step, or this one without waiting."""
    owner = window.step.function.owner
    methods = owner.methods.values() if owner is not None else ()
    others = (each for each in methods if each is not window.step.function)
    return any(True for each in others for _ in optimizer_steps(each, look))


def _steps_later(window: Window, loop: Loop, look: Look) -> bool:
    end = loop.node.end_lineno or 0
    steps = [each.node.lineno for each in optimizer_steps(window.step.function, look)]
    inside = [each for each in steps if each <= end and each > loop.line]
    return any(each > end for each in steps) or len(inside) > 1
