"""gallery:bloom with a planted slowdown registered beside the bundled techniques."""

import statistics
import time
from collections import deque
from typing import Any

from torch import Tensor, nn

import hasten
from hasten.gallery.bloom.task import factory


class SlowdownPart(hasten.Part, frozen=True, kw_only=True):
    share: float = 0.2


class Slowdown(hasten.Technique[SlowdownPart]):
    """Adds work to each step, a share of what a step has been taking; it computes, not sleeps."""

    name = "slowdown"
    part = SlowdownPart
    stage = hasten.Stage.GRAPH
    rung = hasten.Rung.BITWISE
    answers = ()
    about = "Planted by a benchmark."

    def to_try(self, environment: Any, traits: Any) -> list[SlowdownPart]:
        return []

    def apply(self, pipeline: hasten.Pipeline, part: SlowdownPart) -> hasten.Effect:
        forward = pipeline.forward
        steps: deque[float] = deque(maxlen=31)
        last = time.perf_counter()

        def slow(model: nn.Module, batch: object) -> Tensor:
            nonlocal last
            steps.append(time.perf_counter() - last)
            end = time.perf_counter() + part.share * statistics.median(steps)
            while time.perf_counter() < end:
                pass
            last = time.perf_counter()
            loss: Tensor = forward(model, batch)
            return loss

        def undo() -> None:
            pipeline.forward = forward

        pipeline.forward = slow
        return hasten.Effect(why=f"{part.share:.0%} more work", undo=undo)


hasten.register_technique(Slowdown)


def bloom() -> hasten.Task:
    return factory("small")()
