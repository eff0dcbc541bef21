"""Where a tuning is, and about how much is left of it.

The search, each comparison and the loss curves have limits, which are added up. What has none is
taken from what was seen: processes take as long to start as those of the control did, and steps
that were too slow for its time are too slow for others'. Profiling and the proof of a few steps
have a fixed allowance. How many parts a plan will have, and whether it will be in another
precision, is not known before the search has ended.
"""

import time
from collections.abc import Callable, Sequence
from typing import get_args

from hasten.measure.compare import LOOKS_S
from hasten.records.progress import Doing, Phase
from hasten.records.trial import Offer
from hasten.records.verdict import Control
from hasten.stats.equivalence import LOOKS
from hasten.tune.ablate import EACH_S
from hasten.tune.confirm import CONTROL_S, FIRST_S, MOST_PAIRS, PAIRS, pair_in_words
from hasten.tune.curves import CURVES_S
from hasten.tune.parity import seed_in_words

PHASES: tuple[Phase, ...] = get_args(Phase)
PROFILE_S = 30.0
PROOF_S = 60.0
USUAL_PARTS = 3
"""Of a plan."""
FURTHER_PAIRS = {pair_in_words(PAIRS + more) for more in range(2, MOST_PAIRS - PAIRS + 1)}
"""What a confirmation tells of pairs beyond those that most need: each is foreseen as it begins."""
SEEDS = {seed_in_words(number): number for number in range(1, LOOKS[-1] + 1)}
"""What a proof of another precision tells of its trainings."""


class Course:
    """Tells of each thing that is begun."""

    def __init__(self, tell: Callable[[Doing], None], *, larger_s: float = 0.0) -> None:
        """``larger_s`` for larger batches, where these are allowed."""
        self._tell, self._larger_s = tell, larger_s
        self._phase: Phase = "measuring"
        self._entered = self._told = time.monotonic()
        self._expected: dict[Phase, float] = {}
        """Seconds, by phase; empty before anything is foreseen."""
        self._starting_s = 0.0
        self._slowest_s = 0.0
        self.best = ""
        self._first_seed: tuple[int, float] | None = None
        """Of the proof that is going on, and when it began."""

    def tell(self, what: str, best: str | None = None) -> None:
        """``best`` so far, where that may have changed."""
        self._told = time.monotonic()
        if what in FURTHER_PAIRS and "confirming" in self._expected:
            self._expected["confirming"] += self._comparison_s(FIRST_S)
        if what in SEEDS and self._phase == "proving":
            self._foresee_seeds(SEEDS[what])
        self.best = self.best if best is None else best
        self._tell(Doing(phase=self._phase, what=what, best=self.best, left_s=self.left_s()))

    def enter(self, phase: Phase) -> None:
        self._phase, self._entered = phase, time.monotonic()
        self._first_seed = None

    def left_s(self) -> float | None:
        if not self._expected:
            return None
        spent = time.monotonic() - self._entered
        after = PHASES[PHASES.index(self._phase) + 1 :]
        now = max(self._expected.get(self._phase, 0.0) - spent, 0.0)
        return now + sum(self._expected.get(each, 0.0) for each in after)

    def learn(self, control: Control) -> None:
        """Just after the control, which told when its last run began."""
        last_s = control.runs[-1].elapsed_s
        self._starting_s = max(time.monotonic() - self._told - last_s, 0.0)
        if last_s > CONTROL_S:
            self._slowest_s = last_s

    def foresee_search(self, offers: Sequence[Offer], search_s: float) -> None:
        usable = [each for each in offers if each.parts and each.refusal is None]
        self.foresee(min(len(usable), USUAL_PARTS), 0.0)
        self._expected |= {"measuring": PROFILE_S, "searching": search_s}
        self.enter("measuring")

    def foresee(self, parts: int, parity_s: float) -> None:
        """A plan of so many parts that is settled next; ``parity_s`` for trainings in another
        precision."""
        self._expected = {
            "settling": parts * self._comparison_s(EACH_S) if parts > 1 else 0.0,
            "proving": PROOF_S + parity_s,
            "confirming": self._comparison_s(FIRST_S)
            + PAIRS * self._comparison_s(LOOKS_S[0])
            + CURVES_S,
            "enlarging": self._larger_s,
        }

    def _foresee_seeds(self, number: int) -> None:
        """Each takes as long as those before it did, and there are not more than the last look
        needs."""
        if self._first_seed is None:
            self._first_seed = number, self._told
            return
        first, began = self._first_seed
        each_s = (self._told - began) / (number - first)
        most_s = self._told - self._entered + (LOOKS[-1] + 1 - number) * each_s
        self._expected["proving"] = min(self._expected.get("proving", most_s), most_s)

    def _comparison_s(self, limit_s: float) -> float:
        return self._starting_s + max(limit_s, self._slowest_s)
