"""Two arms that repeated one step: do both draw at random, at the right rate, and alike?"""

from hasten.measure.messages import MaskedLayer, Repeated
from hasten.records.verdict import Check, Verdict
from hasten.stats.randomness import (
    ERROR,
    chance_of_rate,
    chance_of_repeats,
    compare_distributions,
    is_constant,
    is_one_stream,
)

FEWEST = 2
"""A single repeat moves nothing."""


def check_randomness(naive: Repeated, plan: Repeated, *, decides: bool) -> Check | None:
    """None where more repeats are needed. Streams are told apart by few; ``decides``: these are
    enough to compare distributions, where they can be."""
    lost = [each for each in plan.applied if each.outcome != "done"]
    if lost:
        return _check("not_proven", f"in the proof, {lost[0]}")
    if naive.values.keys() != plan.values.keys() or naive.layers.keys() != plan.layers.keys():
        return _check("not_proven", "the repeats of both sides have not the same figures")
    one, other = _first(naive, plan), _first(plan, naive)
    if len(one.values["loss"]) < FEWEST:
        return None
    if is_constant(one.values["loss"]):
        return _where_nothing_moves(one, other)
    against = _against(one, other)
    if against is not None:
        return against
    rates = _rates_in_words(other)
    if one.values == other.values and one.layers == other.layers:
        return _check("proven", f"the same random numbers, to the bit{rates}")
    if is_one_stream(one.values, other.values):
        return _check("proven", f"the same random numbers, but for rounding{rates}")
    if not decides:
        return None
    return _by_distribution(one, other, rates)


def _where_nothing_moves(naive: Repeated, plan: Repeated) -> Check:
    if is_constant(plan.values["loss"]):
        return _check("proven", "chance moves no loss, on either side")
    return _check("refuted", "repeats of a step differ, and those of the naive training do not")


def _against(naive: Repeated, plan: Repeated) -> Check | None:
    losses = plan.values["loss"]
    if is_constant(losses):
        return _check("refuted", f"{len(losses)} repeats of a step drew the same random numbers")
    different = len(set(losses))
    if different <= len(losses) // 2 < len(set(naive.values["loss"])):
        return _check("refuted", f"{len(losses)} repeats of a step drew {different} different ones")
    for name, layer in plan.layers.items():
        sides: tuple[tuple[Verdict, MaskedLayer], ...] = (
            ("not_proven", naive.layers[name]),
            ("refuted", layer),
        )
        for verdict, each in sides:
            wrong = _wrong(each, naive.layers[name], 4 * len(plan.layers))
            if wrong is not None:
                whose = "" if verdict == "refuted" else " of the naive training"
                return _check(verdict, f"the dropout {name!r}{whose} {wrong}")
    return None


def _wrong(layer: MaskedLayer, naive: MaskedLayer, among: int) -> str | None:
    """``among``: so many questions share the error."""
    kept, seen = sum(layer.kept), sum(layer.seen)
    if not seen:
        return "was not seen to drop anything"
    # Computed again for the backward pass, it counts twice.
    twice = max(round(seen / max(sum(naive.seen), 1)), 1)
    least = min(layer.seen) // twice
    if chance_of_repeats(layer.prints, least, layer.rate) < ERROR / among:
        same = len(layer.prints) - len(set(layer.prints))
        return f"drew a mask again in {same} of {len(layer.prints)} repeats"
    if chance_of_rate(kept // twice, seen // twice, layer.rate) < ERROR / among:
        return f"keeps {100 * kept / seen:.2f} % of {seen // twice}, not {100 * layer.rate:g} %"
    return None


def _by_distribution(naive: Repeated, plan: Repeated, rates: str) -> Check | None:
    likeness = compare_distributions(naive.values, plan.values)
    count = len(plan.values["loss"])
    if likeness == "same":
        why = f"same distribution, other stream: {count} repeats of a step{rates}"
        return _check("proven", why)
    if likeness == "other":
        why = f"{count} repeats of a step have another distribution than the naive training's"
        return _check("refuted", why)
    return None


def _rates_in_words(plan: Repeated) -> str:
    if not plan.layers:
        return ""
    rates = [sum(each.kept) / max(sum(each.seen), 1) - each.rate for each in plan.layers.values()]
    worst = max(map(abs, rates))
    layers = "1 layer" if len(rates) == 1 else f"{len(rates)} layers"
    return f"; dropout rates right to {100 * worst:.2g} % ({layers})"


def _first(repeated: Repeated, other: Repeated) -> Repeated:
    """As many repeats as both have."""
    count = min(len(repeated.values["loss"]), len(other.values["loss"]))
    return Repeated(
        values={name: each[:count] for name, each in repeated.values.items()},
        layers={
            name: MaskedLayer(
                rate=each.rate,
                kept=each.kept[:count],
                seen=each.seen[:count],
                prints=each.prints[:count],
            )
            for name, each in repeated.layers.items()
        },
        applied=repeated.applied,
    )


def _check(verdict: Verdict, why: str) -> Check:
    return Check(name="randomness", verdict=verdict, why=why)
