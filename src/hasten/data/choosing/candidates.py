"""Settings that take turns in a search, what their turns came to, and which of them is chosen."""

import statistics
from dataclasses import dataclass, field

from hasten.data.choosing.turns import Settings, Turn
from hasten.records.loading import Mode, Rate, ThreadSettings, WorkerSettings

ALIKE, MOST_ALIKE = 0.03, 0.1
"""Settings so near to the fastest are as good as it; up to the latter where it is unsteady."""
BESIDE_DEVICE = 0.8
"""Of the rate of the loader as it is; from there on batches that are made ahead win."""


@dataclass
class Candidate:
    settings: Settings
    own: bool = False
    """Whether it is what the user's loader does."""
    turns: list[Turn] = field(default_factory=list)
    failed: str | None = None

    @property
    def mode(self) -> Mode:
        if self.own:
            return "own"
        return "workers" if isinstance(self.settings, WorkerSettings) else "threads"

    @property
    def cost(self) -> tuple[int, int, int]:
        """Simplest first: nothing, threads, processes; few before many."""
        if isinstance(self.settings, ThreadSettings):
            return 1, self.settings.threads, 0
        if not self.settings.workers:
            return 0, 0, 0
        return 2, self.settings.workers, self.settings.prefetch

    def rates(self) -> list[float]:
        return [turn.rows / turn.seconds for turn in self.turns]

    def rate(self) -> float:
        return statistics.median(self.rates()) if self.turns else 0.0

    def spread(self) -> float:
        rates = self.rates()
        return (max(rates) - min(rates)) / 2 / self.rate() if len(rates) > 1 else 0.0


def near_the_fastest(candidates: list[Candidate], near: float) -> list[Candidate]:
    going = [each for each in candidates if each.turns and not each.failed]
    going.sort(key=lambda each: -each.rate())
    return [each for each in going if each.own or each.rate() >= going[0].rate() * (1 - near)]


def choose(measured: list[Candidate], *, beside_device: bool) -> Candidate | None:
    """The simplest of those that are as good as the fastest."""
    ahead = [each for each in measured if each.cost > (0, 0, 0)]
    if beside_device and ahead and len(ahead) < len(measured):
        here = max(each.rate() for each in measured if each not in ahead)
        if max(each.rate() for each in ahead) >= BESIDE_DEVICE * here:
            measured = ahead
    if not measured:
        return None
    best = max(measured, key=Candidate.rate)
    near = min(max(ALIKE, best.spread()), MOST_ALIKE)
    return min(
        (each for each in measured if each.rate() >= best.rate() * (1 - near)),
        key=lambda each: each.cost,
    )


def reason_for(chosen: Candidate | None, measured: list[Candidate]) -> str:
    if chosen is None:
        return "nothing could be measured"
    own = next((each for each in measured if each.own), None)
    if chosen is own:
        return "nothing that was measured is faster than it is"
    against = f", {chosen.rate() / own.rate():.2f} times the loader as it is" if own else ""
    return f"{chosen.settings}: {chosen.rate():,.0f} rows/s{against}"


def batch_s(candidate: Candidate) -> float:
    batches = sum(turn.batches for turn in candidate.turns)
    return sum(turn.seconds for turn in candidate.turns) / batches


def rate_of(candidate: Candidate) -> Rate:
    taken = [turn.worker_bytes for turn in candidate.turns if turn.worker_bytes is not None]
    return Rate(
        mode=candidate.mode,
        how=str(candidate.settings),
        rows_per_s=candidate.rate(),
        spread=candidate.spread(),
        turns=len(candidate.turns),
        seconds_per_batch=batch_s(candidate),
        worker_bytes=max(taken, default=None),
    )
