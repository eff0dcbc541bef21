"""gallery:bloom with a planted slowdown registered beside the bundled techniques."""

import math
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

import hasten
from hasten.gallery.bloom.task import factory

CALIBRATION = 7
"""Steps by which the work is measured out, within the warm-up."""


class MoreWorkPart(hasten.Part, frozen=True, kw_only=True):
    share: float = 0.2


class MoreWork(hasten.Technique[MoreWorkPart]):
    """Multiplies matrices beside each step, as many as a share of it takes; counted once."""

    name = "more_work"
    part = MoreWorkPart
    stage = hasten.Stage.GRAPH
    rung = hasten.Rung.BITWISE
    answers = ()
    about = "Planted by a benchmark."

    def to_try(self, environment: Any, traits: Any) -> list[MoreWorkPart]:
        return []

    def apply(self, pipeline: hasten.Pipeline, part: MoreWorkPart) -> hasten.Effect:
        forward = pipeline.forward
        pending: list[float] = []
        count = 0
        matrix = torch.ones(48, 48)

        def work(times: int) -> None:
            with torch.no_grad():
                for _ in range(times):
                    torch.mm(matrix, matrix)

        def slow(model: nn.Module, batch: object) -> Tensor:
            nonlocal count
            if len(pending) <= CALIBRATION:
                pending.append(time.perf_counter())
                if len(pending) > CALIBRATION:
                    step_s = statistics.median(b - a for a, b in pairwise(pending))
                    count = max(1, round(part.share * step_s / _seconds_of(work)))
            work(count)
            loss: Tensor = forward(model, batch)
            return loss

        def undo() -> None:
            pipeline.forward = forward

        pipeline.forward = slow
        return hasten.Effect(why=f"{part.share:.0%} more work", undo=undo)


def _seconds_of(work: Callable[[int], None]) -> float:
    """Of one piece of it, when nothing disturbs."""
    fastest = math.inf
    for _ in range(30):
        start = time.perf_counter()
        work(50)
        fastest = min(fastest, (time.perf_counter() - start) / 50)
    return fastest


hasten.register_technique(MoreWork)


def bloom() -> hasten.Task:
    return factory("small")()
