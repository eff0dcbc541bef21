"""How many trials does a search take, by the number of techniques that have something to try?

The real search, on arms that only pretend: a plan is as fast as its parts make it, and nothing is
timed, so that the counts are the same on any machine. Four worlds: nothing helps; every other
technique makes a step 1.5 times faster; all do; and the worst there is, in which a technique helps
only once all that come behind it are kept. Beside as many techniques again whose bounds lie under
the noise floor, of which none may be tried.

Bar: at most two trials a technique, and none under the floor.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

from hasten.records.applied import Applied
from hasten.records.finding import Finding
from hasten.records.plan import Plan, Rung
from hasten.records.trial import Offer
from hasten.records.verdict import Check, Comparison, NumericsClaim
from hasten.tune import rivals
from hasten.tune import search as searching
from hasten.tune.search import MOST_TRIES, Search
from results_file import write_results

COUNTS = (4, 8, 16)
FLOOR = 1.02
GAIN = 1.5
Speed = Callable[[Plan], float]


def nothing_helps(names: Sequence[str]) -> Speed:
    return lambda plan: 0.99 ** len(plan.parts)


def every_other_helps(names: Sequence[str]) -> Speed:
    helping = set(names[1::2])
    return lambda plan: GAIN ** len(helping & plan.parts.keys())


def all_help(names: Sequence[str]) -> Speed:
    return lambda plan: GAIN ** len(plan.parts)


def each_needs_all_behind_it(names: Sequence[str]) -> Speed:
    def speed(plan: Plan) -> float:
        product = 1.0
        for place, name in enumerate(names):
            if name in plan.parts:
                product *= GAIN if plan.parts.keys() >= set(names[place + 1 :]) else 1 / GAIN
        return product

    return speed


WORLDS = (nothing_helps, every_other_helps, all_help, each_needs_all_behind_it)


class PretendedArm:
    """Of a plan; it is its own worker."""

    applied: tuple[Applied, ...] = ()
    state = None

    def __init__(self, plan: Plan) -> None:
        self.plan, self.worker = plan, self

    def fell_back(self) -> None: ...
    def read(self) -> None: ...
    def pause(self) -> None: ...
    def close(self) -> None: ...


class PretendedLab:
    def arms(self, *plans: Plan, **_: object) -> list[PretendedArm]:
        return [PretendedArm(plan) for plan in plans]

    def close_workers(self) -> None: ...


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    rows = [{"world": world.__name__, **count_trials(world)} for world in WORLDS]
    write_results("trials-curve", {"techniques": COUNTS, "most_tries": MOST_TRIES, "curves": rows})
    most = max(
        trials / count for row in rows for trials, count in zip(row["trials"], COUNTS, strict=True)
    )
    if most > MOST_TRIES or any(any(row["under_the_floor"]) for row in rows):
        sys.exit(f"{most:.2f} trials a technique, or some under the floor")


def count_trials(world: Callable[[Sequence[str]], Speed]) -> dict[str, list[int]]:
    found = [search_in(world, count) for count in COUNTS]
    return {
        "trials": [trials for trials, _, _ in found],
        "under_the_floor": [under for _, under, _ in found],
        "kept": [kept for _, _, kept in found],
    }


def search_in(world: Callable[[Sequence[str]], Speed], count: int) -> tuple[int, int, int]:
    """Trials that were timed, those of them under the floor, and changes that were kept."""
    names = [f"t{number:02}" for number in range(count)]
    small = [f"small{number:02}" for number in range(count)]
    speed, timed = world(names), list[Plan]()

    def compare(a: PretendedArm, b: PretendedArm, **_: object) -> Comparison:
        timed.append(b.plan)
        return _comparison(speed(b.plan) / speed(a.plan))

    offers = [
        *(_offer(name, "large") for name in names),
        *(_offer(name, "small") for name in small),
    ]
    findings = [_finding("large", 100.0), _finding("small", FLOOR - 0.001)]
    search = Search(
        PretendedLab(),  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        offers,
        {each.technique: each.rung for each in offers},
        noise_floor=FLOOR,
        deadline=time.monotonic() + 3600,
        diagnose=lambda plan: findings,
        note=lambda record: None,
        known={},
    )
    with (
        patch.object(rivals, "compare", compare),
        patch.object(searching, "prove_steps", _prove),
    ):
        search.run(findings, lambda words: None)
    under = sum(bool(plan.parts.keys() & set(small)) for plan in timed)
    return len(timed), under, len(search.kept)


def _finding(code: str, bound: float) -> Finding:
    return Finding(code=code, title=code, advice="", place=None, cost_s=0.1, bound=bound)


def _offer(technique: str, answers: str) -> Offer:
    return Offer(
        technique=technique,
        rung=Rung.BITWISE,
        answers=(answers,),
        parts=({},),
        changes_data=False,
        slow_to_prepare=False,
        refusal=None,
    )


def _comparison(ratio: float) -> Comparison:
    """As sure as can be."""
    return Comparison(
        ratio=ratio,
        low=ratio,
        high=ratio,
        confidence=0.99,
        margin=FLOOR - 1,
        decision="faster" if ratio > FLOOR else "same",
        rounds=(),
        elapsed_s=0.0,
        a_warmup_s=0.0,
        b_warmup_s=0.0,
    )


def _prove(*_: Any, **__: Any) -> NumericsClaim:
    check = Check(name="bitwise", verdict="proven", why="pretended")
    return NumericsClaim(rung=Rung.BITWISE, verdict="proven", checks=(check,))


if __name__ == "__main__":
    main()
