"""The whole step as one CUDA graph: gather, forward, backward, unscale, clip, update.

A few real steps run eagerly first, on the stream that is captured later: they make what is made on
first use and show what a capture could not hold. Then one step is captured, which computes nothing,
and every further batch of that shape is copied into its slots and replayed. Batches of another
shape, and steps in another mode, run eagerly. So each step is a step of the training, and nothing
has to be put back.

What a graph bakes in is kept alive and watched. Before each replay these are compared: parameters
and buffers (which they are, where, and whether they are trained), the optimizers' groups, settings
and state, the scaler, and the model, loss, transfer, clipping and pieces of the pipeline. Where a
setting of an optimizer moved the graph is given up, where anything else of these did it is captured
anew, and so it is where the usual batch becomes another. Learning rates are device scalars that
follow the host's, so that schedulers work.

Limits: what is not in that list is not seen after the capture. A Python branch that turns another
way, a submodule's own mode or rate (``dropout.p``, ``bn.eval()``), a hook, a replaced submodule,
state that is swapped for some parameters only: all of them stay as they were captured. Draws from
the host's random generators, changed attributes of modules and optimizer state that is made anew
are looked for in the warm-up only. A batch in pinned memory is read when the device comes to it,
so that a loader must not fill it again before.
"""

from typing import Any

import torch
from torch import Tensor

from hasten.step.capture import Capture
from hasten.step.eager import EagerStep
from hasten.step.slots import Signature, cannot_hold, signature_of
from hasten.step.watch import HostState, noting_syncs

WARM_STEPS = 3
"""Of a shape, before it is captured."""
MOST_SHAPES = 4
"""Among the steps before a capture: the usual one, an epoch's last, and some others."""
MOVES = 8
"""A training that moves its weights about more often than this is no work for a graph."""
MISFITS = 16
"""Batches one after the other that do not fit, before what fits is taken to be another."""


class GraphStep:
    """Instead of an EagerStep. ``refusal`` says why it stays eager after all."""

    def __init__(self, eager: EagerStep) -> None:
        self.eager = eager
        self.refusal: str | None = None
        self._moves = 0
        self._seen: list[tuple[Signature, int]] = []
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
            capture.misfits += 1
            if capture.misfits <= MISFITS:
                return self.eager(batch)
            self._begin_anew()
            return self(batch)
        setting = capture.changed_setting()
        if setting is not None:
            self.refusal = f"the optimizer's {setting} moved, and a graph has it baked in"
            self._capture = None
            return self.eager(batch)
        if capture.has_moved():
            self._begin_anew()
            return self(batch)
        self.eager.begin()
        if capture.tape.is_full:
            capture = self._capture = Capture(self.eager, batch, self._stream)
        elif not capture.take_state():
            return self.eager(batch)
        return self._replay_or_not(capture, batch)

    def _replay_or_not(self, capture: Capture, batch: Any) -> Tensor:
        loss = capture.replay(batch)
        return self.eager(batch) if loss is None else loss

    def close(self) -> None:
        self._capture = None
        for hook in self._hooks:
            hook.remove()

    def _begin_anew(self) -> None:
        self._capture = None
        self._seen.clear()
        self._moves += 1
        if self._moves > MOVES:
            self.refusal = (
                f"weights, optimizer state or the usual batch were replaced {self._moves} times"
            )

    def _warm_or_capture(self, batch: Any) -> Tensor:
        self.refusal = cannot_hold(batch)
        if self.refusal is not None:
            return self.eager(batch)
        times = self._count(signature_of(batch))
        if len(self._seen) > MOST_SHAPES:
            self.refusal = "the shapes of the batches move"
            return self.eager(batch)
        if times <= WARM_STEPS:
            return self._warm(batch, first=times == 1)
        self.eager.begin()
        self._capture = Capture(self.eager, batch, self._stream)
        return self._replay_or_not(self._capture, batch)

    def _count(self, signature: Signature) -> int:
        """How often it was seen by now. They are compared, since some batches have no hash."""
        for place, (seen, times) in enumerate(self._seen):
            if seen == signature:
                self._seen[place] = seen, times + 1
                return times + 1
        self._seen.append((signature, 1))
        return 1

    def _warm(self, batch: Any, *, first: bool) -> Tensor:
        eager = self.eager
        eager.begin()
        moved = eager.transfer(batch)  # apart: a captured step has its batch in slots
        before = HostState(eager.pipeline.model, eager.pipeline.optimizers)
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
