"""Which number of workers or threads loads fastest, found by measuring.

Method: every setting that this process may use takes short turns, interleaved in random order; each
turn goes on in the loader's own order where the last one ended. After each round the slower ones
are left out, at first only those far behind. The simplest setting within 3 % of the fastest, or
within its spread, is chosen: fewer workers leave more to the training. Beside a device that
computes by itself, what makes batches ahead is chosen even where it is no faster than the loader
as it is: the device need not wait meanwhile.

Limits: nobody trains meanwhile, so that all cores are the loader's; turns see files as they come,
some from the disk and some from the kernel's memory. What is read in this process is measured in a
copy with one thread of torch.
"""

import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace
from torch.utils.data import DataLoader

from hasten.data.ahead.foresight import Foresight
from hasten.data.ahead.manner import Manner, manner_of
from hasten.data.ahead.threaded import cannot_thread
from hasten.data.ahead.workers import cannot_foresee, cannot_work
from hasten.data.choosing.allowance import Allowance
from hasten.data.choosing.candidates import (
    Candidate,
    batch_s,
    choose,
    near_the_fastest,
    rate_of,
    reason_for,
)
from hasten.data.choosing.turns import Settings, take_turn
from hasten.data.loaders.order import Order
from hasten.errors import HastenError, in_a_line
from hasten.host.forked import ForkFailed, can_fork
from hasten.records.loading import (
    LoaderRating,
    Mode,
    Refused,
    ThreadSettings,
    WorkerSettings,
)
from hasten.task.traits import ORDINARY_ERRORS

SECONDS = 20.0
MOST_SECONDS = 55.0
"""Of any search, whatever is asked for."""
SHORTEST_TURN_S, LONGEST_TURN_S = 0.15, 1.5
NEAR = (0.75, 0.5, 0.2, 0.1, 0.1)
"""Settings so near to the fastest stay in the search, after each round: a busy moment must not
decide. The loader as it is always stays."""
RESTARTS = 0.02
"""Of an epoch; where starting workers takes more they live on."""
MORE_AHEAD = 4
"""Batches of each worker, tried beside the usual 2."""
LEAST_WORKER_BYTES = 16 * 2**20
"""Of a worker that has not been measured yet."""
KEPT_INDICES = 10_000
"""Batches of indices that turns go through, over and over."""
Tell = Callable[[str], None]


def rate_loading(
    loader: DataLoader[Any],
    *,
    seconds: float = SECONDS,
    allowance: Allowance | None = None,
    manner: Manner | None = None,
    beside_device: bool = False,
    only: list[Settings] | None = None,
    tell: Tell = lambda message: None,
) -> LoaderRating:
    """Search for at most about ``seconds``, and a minute at most. ``beside_device``: the batches go
    to a device that computes by itself; ``only``: these settings, instead of those that this
    process may use; ``manner``: what is known of the dataset. The loader, its dataset, its samplers
    and all random generators are left as they were."""
    began = time.monotonic()
    search = Search(loader, allowance or Allowance.now(), began + min(seconds, MOST_SECONDS), tell)
    search.admit(manner or manner_of(loader), only)
    search.run()
    return search.rating(time.monotonic() - began, beside_device=beside_device)


class Search:
    """The settings that are left, and what their turns came to."""

    def __init__(
        self, loader: DataLoader[Any], allowance: Allowance, deadline: float, tell: Tell
    ) -> None:
        self._loader = loader
        self._allowance = allowance
        self._deadline = deadline
        self._tell = tell
        self._order = random.Random(0)
        self.candidates: list[Candidate] = []
        self.refused: list[Refused] = []
        self.complete = True
        self._batch_s = 0.0
        """Of one maker, the longest seen."""
        self._batch_bytes = 0
        self._worker_bytes = LEAST_WORKER_BYTES
        self._indices: Iterator[Any] = iter(())

    def admit(self, manner: Manner, only: list[Settings] | None) -> None:
        """All settings that are safe for this dataset and within the allowance."""
        reasons: dict[Mode, str | None] = {
            "own": _cannot_measure(self._loader, manner),
            "threads": cannot_thread(self._loader, manner=manner),
            "workers": cannot_work(self._loader, WorkerSettings(workers=1), manner=manner),
        }
        self.refused += [
            Refused(mode=mode, why=why) for mode, why in reasons.items() if why and mode != "own"
        ]
        own = own_settings(self._loader)
        given = self._all() if only is None else only
        wanted = [Candidate(own, own=True), *(Candidate(each) for each in given if each != own)]
        self.candidates = [each for each in wanted if reasons[each.mode] is None]
        if self.candidates:
            foreseen = list(itertools.islice(Foresight(Order(self._loader)), KEPT_INDICES))
            self.candidates = self.candidates if foreseen else []
            self._indices = itertools.cycle(foreseen)

    def _all(self) -> list[Settings]:
        counts = self._allowance.worker_counts()
        threads = [ThreadSettings(threads=count, ahead=2 * count) for count in counts]
        workers = [WorkerSettings(workers=count) for count in [0, *counts]]
        return [*threads, *workers]

    def run(self) -> None:
        left = sorted(self.candidates, key=lambda each: each.cost)
        for number, near in enumerate(NEAR):
            turn_s = self._turn_s(len(left), len(NEAR) - number)
            # The first round goes from few to many, so that memory is known before it is taken.
            for each in self._order.sample(left, len(left)) if number else left:
                self._take_turn(each, turn_s)
            left = near_the_fastest(left, near)
            if number == 0:
                left += self._with_more_ahead(left)
            if len(left) < 2 or not self.complete:
                return

    def _turn_s(self, candidates: int, rounds: int) -> float:
        """Later rounds have fewer candidates: about half of all turns are still to come."""
        turns = max(candidates * (1 + rounds / 3), 1)
        time_left = max(self._deadline - time.monotonic(), 0.0)
        return min(max(0.6 * time_left / turns, SHORTEST_TURN_S), LONGEST_TURN_S)

    def _take_turn(self, candidate: Candidate, turn_s: float) -> None:
        limit_s = self._deadline - time.monotonic()
        # Each maker makes two batches at least, and those under way are waited for.
        if limit_s < 3 * self._batch_s + SHORTEST_TURN_S:
            self.complete = False
            return
        candidate.failed = self._allowance.too_much(
            candidate.settings, batch_bytes=self._batch_bytes, worker_bytes=self._worker_bytes
        )
        if candidate.failed:
            return
        self._tell(f"loading by {candidate.settings}")
        try:
            turn = take_turn(
                self._loader, candidate.settings, self._indices, turn_s=turn_s, limit_s=limit_s
            )
        except (*ORDINARY_ERRORS, ForkFailed, HastenError) as error:
            candidate.failed = in_a_line(str(error))
            return
        candidate.turns.append(turn)
        self._batch_bytes = max(self._batch_bytes, turn.batch_bytes)
        self._worker_bytes = max(self._worker_bytes, turn.worker_bytes or 0)
        makers = max(candidate.cost[1], 1)
        self._batch_s = max(self._batch_s, turn.seconds * makers / turn.batches)

    def _with_more_ahead(self, left: list[Candidate]) -> list[Candidate]:
        """The fastest number of workers, with more batches ahead: where items are uneven."""
        for each in left:
            if isinstance(each.settings, WorkerSettings) and each.settings.workers:
                more = WorkerSettings(workers=each.settings.workers, prefetch=MORE_AHEAD)
                if more not in [other.settings for other in self.candidates]:
                    self.candidates.append(Candidate(more))
                    return [self.candidates[-1]]
        return []

    def rating(self, elapsed_s: float, *, beside_device: bool) -> LoaderRating:
        measured = [each for each in self.candidates if each.turns and not each.failed]
        self.refused += [
            Refused(mode=each.mode, why=f"{each.settings}: {each.failed}")
            for each in self.candidates
            if each.failed
        ]
        chosen = choose(measured, beside_device=beside_device)
        settings = chosen.settings if chosen else None
        workers = settings if isinstance(settings, WorkerSettings) else None
        return LoaderRating(
            mode=chosen.mode if chosen else "own",
            workers=workers and self._living_on(workers, chosen),
            threads=settings if isinstance(settings, ThreadSettings) else None,
            rows_per_s=chosen.rate() if chosen else None,
            spread=chosen.spread() if chosen else None,
            why=reason_for(chosen, measured),
            rates=tuple(rate_of(each) for each in sorted(measured, key=lambda each: each.cost)),
            refused=tuple(self.refused),
            elapsed_s=elapsed_s,
            complete=self.complete,
        )

    def _living_on(self, settings: WorkerSettings, chosen: Candidate | None) -> WorkerSettings:
        """Workers live on where starting them takes much of an epoch."""
        assert chosen is not None
        start_s = statistics.median(turn.start_s for turn in chosen.turns)
        epoch_s = len(self._loader) * batch_s(chosen)
        lives_on = settings.workers and start_s > RESTARTS * epoch_s
        return replace(settings, persistent=bool(lives_on and not chosen.own))


def own_settings(loader: DataLoader[Any]) -> WorkerSettings:
    return WorkerSettings(workers=loader.num_workers, prefetch=loader.prefetch_factor or 2)


def _cannot_measure(loader: DataLoader[Any], manner: Manner) -> str | None:
    """Why the loader as it is cannot be measured without a trace."""
    reason = cannot_foresee(loader)
    if reason or not can_fork():
        return reason or "this process cannot fork"
    return manner.handles or manner.on_device or manner.unknown
