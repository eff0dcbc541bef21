"""Losses of both sides from the same seeds: what a chart of a training draws."""

from collections.abc import Iterator

from hasten.records.record import Record

POINTS = 40
"""Of a curve, at most."""
TRAINING_LOSS = "training loss"
"""The figure that every training has."""


def steps_a_point(steps: int) -> int:
    return -(-steps // POINTS) or 1


def figure_name(name: str) -> str:
    """Of a figure of an evaluation, beside the training's loss."""
    return "evaluation loss" if name == "loss" else name


class SeedCurve(Record, frozen=True, kw_only=True):
    """What one side came to from one seed."""

    losses: tuple[float, ...]
    """Training losses, as means of runs of steps of equal length; they end where one is not
    finite."""
    figures: dict[str, float]
    """Those that are compared, as far as they are finite."""


class Curves(Record, frozen=True, kw_only=True):
    """Trainings from a few seeds, to look at. That they look alike proves nothing."""

    steps: int
    """Of each training."""
    seeds: tuple[int, ...]
    naive: tuple[SeedCurve, ...]
    """One for each seed."""
    plan: tuple[SeedCurve, ...]
    """From the first seeds, as many as there are."""
    failure: str = ""
    """Why there are no more of them; empty where none is missing."""

    def apart(self) -> float:
        """How far plan and naive are at most from each other at one place, from the same seed."""
        both = zip(self.naive, self.plan, strict=False)
        return max((abs(a - b) for one, other in both for a, b in _places(one, other)), default=0.0)

    def spread(self) -> float:
        """How far the naive seeds are at most from each other at one place."""
        return max((max(place) - min(place) for place in _places(*self.naive)), default=0.0)


def _places(*curves: SeedCurve) -> Iterator[tuple[float, ...]]:
    """As far as all of them go: one that diverged ends early."""
    return zip(*(each.losses for each in curves), strict=False)
