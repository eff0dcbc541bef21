"""Gradients that are clipped when it is too late or too early."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, are_alternatives, is_own_attribute, is_within
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import backwards, optimizer_steps

CLIPS = ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm")


class ClipAtTheWrongPlace(Rule):
    code = "HST616"
    name = "clip-at-the-wrong-place"
    why = (
        "Clipping changes gradients between the backward pass and the step; anywhere else it costs"
        " a norm over all of them and changes nothing."
    )
    instead = "Clip after `backward()` and before `optimizer.step()`."
    effort = "a minute"
    risk = "training changes, as it was meant"
    calls = (*CLIPS, "backward")
    least = Heat.ONCE
    severity = "high"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # !
""",
        """\
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        loss = model(x, y)
        optimizer.zero_grad()
        torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)  # !
        loss.backward()
        optimizer.step()
""",
        """\
import torch

class Trainer:
    def fit_batch(self, batch, half):
        loss = self.compute(batch)
        if half:
            if self.check_gradients(loss):  # !
                loss.backward()
                self.optimizer.step()
        else:
            loss.backward()
            if self.check_gradients(loss):
                self.optimizer.step()

    def check_gradients(self, loss):
        if not torch.isfinite(loss):
            return False
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)  # !
        return True
""",
        """\
import torch

class Trainer:
    def fit_batch(self, batch):
        self.optimizer.zero_grad()
        self.compute(batch).backward()
        self.clip()
        self.optimizer.step()
        self.penalty(batch).backward()
        self.clip()
        self.optimizer.step()

    def clip(self):
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
""",
        """\
import torch

def train(model, loader, optimizer, other, clip):
    for x, y in loader:
        model(x, y).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
    for x, y in loader:
        model(x, y).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        other.step()
        optimizer.step()
        optimizer.zero_grad()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.called == "backward":
            yield from self._helpers(site, look)
            return
        line = site.node.lineno
        passes = _lines_beside(site, backwards(site.function, look))
        steps = _lines_beside(site, optimizer_steps(site.function, look))
        if not passes or not steps:
            return
        is_between = any(each <= line for each in passes) and any(each >= line for each in steps)
        if not is_between:
            yield Found(site.node, "gradients are clipped where it changes nothing")

    def _helpers(self, backward: Site, look: Look) -> Iterator[Found]:
        """Methods that clip, where they are called before the backward pass and not after it."""
        for call, clip in _clipping_calls(backward, look):
            is_first = not any(
                each.node.lineno < call.node.lineno and not are_alternatives(each, call)
                for each in backwards(backward.function, look)
            )
            if is_first and not any(
                other.node.lineno > backward.node.lineno and again is clip
                for other, again in _clipping_calls(backward, look)
            ):
                yield Found(call.node, f"`{look.source(call.node)}` clips before `backward()`")
                yield Found(clip.node, "gradients are clipped before there are any")


def _clipping_calls(backward: Site, look: Look) -> Iterator[tuple[Site, Site]]:
    """Calls of methods that clip, on the way to the backward pass, and where these do."""
    owner = backward.function.owner
    for each in backward.function.calls if owner is not None else ():
        if not is_own_attribute(each.node.func) or not is_within(backward, each.block):
            continue
        method = owner.methods.get(each.called) if owner is not None else None
        clip = next(look.calls_in(method, *CLIPS), None) if method is not None else None
        if method is not None and clip is not None and not any(backwards(method, look)):
            yield each, clip


def _lines_beside(site: Site, others: Iterator[Site]) -> list[int]:
    """Of calls in the same body."""
    return [each.node.lineno for each in others if each.block is site.block]
