"""The whole step as one CUDA graph: gather, forward, backward, unscale, clip, update.

A few real steps run eagerly first, on the stream that is captured later: they make what is made on
first use and show what a capture could not hold. Then one step is captured, which computes nothing,
and every further batch of that shape is copied into its slots and replayed. Batches of another
shape, and steps in another mode, run eagerly. So each step is a step of the training, and nothing
has to be put back.

What a graph bakes in is watched: where parameters or the optimizer's state move it is captured
anew, where a setting of the optimizer moves it is given up; it is never replayed stale. Learning
rates are device scalars that follow the host's, so that schedulers work.

Limits: a Python branch that turns another way after the capture is not seen. Changed attributes of
modules and draws from the host's random generators are looked for in the warm-up only.
"""

from collections import Counter
from typing import Any

import torch
from torch import Tensor

from hasten.step.capture import Capture
from hasten.step.eager import EagerStep
from hasten.step.slots import Signature, signature_of
from hasten.step.watch import HostState, noting_syncs

WARM_STEPS = 3
"""Of a shape, before it is captured."""
MOST_SHAPES = 4
"""Among the steps before a capture: the usual one, an epoch's last, and some others."""
MOVES = 8
"""A training that moves its weights about more often than this is no work for a graph."""


class GraphStep:
    """Instead of an EagerStep. ``refusal`` says why it stays eager after all."""

    def __init__(self, eager: EagerStep) -> None:
        self.eager = eager
        self.refusal: str | None = None
        self._moves = 0
        self._seen: Counter[Signature] = Counter()
        self._capture: Capture | None = None
        self._stream = torch.cuda.Stream(eager.pipeline.device)  # type: ignore[no-untyped-call]
        self._hooks = [
            each.register_load_state_dict_post_hook(lambda _: self._begin_anew())
            for each in eager.pipeline.optimizers
        ]

    @property
    def is_captured(self) -> bool:
        return self._capture is not None

    @property
    def is_warming(self) -> bool:
        return self._capture is None and self.refusal is None

    def words(self) -> str:
        return "captured" if self.is_captured else self.refusal or "not captured yet"

    def replay(self, batch: Any) -> Tensor | None:
        """A step by replaying; None where that is not to be. It neither fails nor has problems."""
        return self._capture.replay(batch) if self._capture is not None else None

    def __call__(self, batch: Any) -> Tensor:
        capture = self._capture
        if self.refusal is not None:
            return self.eager(batch)
        if capture is None:
            return self._warm_or_capture(batch)
        loss = capture.replay(batch)
        return self._without_replay(capture, batch) if loss is None else loss

    def _without_replay(self, capture: Capture, batch: Any) -> Tensor:
        """A step of another shape or mode, or of a training in which something has moved."""
        if not capture.is_for(batch):
            return self.eager(batch)
        setting = capture.changed_setting()
        if setting is not None:
            self.refusal = f"the optimizer's {setting} moved, and a graph has it baked in"
            self._capture = None
            return self.eager(batch)
        if capture.tape.is_full:
            self._capture = None  # and captured again at once, with a new one
        else:
            self._begin_anew()
        return self(batch)

    def close(self) -> None:
        self._capture = None
        for hook in self._hooks:
            hook.remove()

    def _begin_anew(self) -> None:
        self._capture = None
        self._seen.clear()
        self._moves += 1
        if self._moves > MOVES:
            self.refusal = f"weights or optimizer state were replaced {self._moves} times"

    def _warm_or_capture(self, batch: Any) -> Tensor:
        signature = signature_of(batch)
        self._seen[signature] += 1
        if len(self._seen) > MOST_SHAPES:
            self.refusal = "the shapes of the batches move"
            return self.eager(batch)
        if self._seen[signature] <= WARM_STEPS:
            return self._warm(batch, first=self._seen[signature] == 1)
        self.eager.begin()
        self._capture = Capture(self.eager, batch, self._stream)
        return self(batch)

    def _warm(self, batch: Any, *, first: bool) -> Tensor:
        eager = self.eager
        eager.begin()
        moved = eager.transfer(batch)  # apart: a captured step has its batch in slots
        before = HostState(eager.pipeline.model)
        here = torch.cuda.current_stream(eager.pipeline.device)
        self._stream.wait_stream(here)
        with noting_syncs() as syncs, torch.cuda.stream(self._stream):
            loss = eager.compute(moved)
        here.wait_stream(self._stream)
        loss.record_stream(here)
        eager.step_schedulers()
        if not first:  # the first of a shape makes things that later ones only use
            waits = f"{syncs[0]} makes the host wait for the device" if syncs else None
            self.refusal = waits or before.what_moved()
        return loss
