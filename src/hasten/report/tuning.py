"""A tuning in words that the card, the page and the Markdown share."""

import shlex
from dataclasses import dataclass

from hasten.records.plan import Rung
from hasten.records.recipe import Evidence
from hasten.records.trial import Outcome, Trial
from hasten.records.tuning import Aim, Diagnosed
from hasten.records.verdict import MemoryClaim, SpeedClaim, Verdict
from hasten.report.blocks import Tone
from hasten.report.text import duration, interval, peak_memory, printable, size

TONES: dict[Outcome, Tone] = {
    "kept": "good",
    "refuted": "bad",
    "failed": "bad",
    "out_of_memory": "bad",
    "missed_target": "bad",
}
"""Of a trial; all others are in doubt."""
VERDICT_TONES: dict[Verdict, Tone] = {"proven": "good", "not_proven": "doubt", "refuted": "bad"}

NO_FINDINGS = "No part of a step stands out."
NO_TRIALS = "Nothing: no technique answers these findings."
REWRITTEN_BY_HAND = "unfused-attention"
"""The finding that no technique answers, only its author."""


@dataclass(frozen=True)
class Headline:
    word: str
    tone: Tone
    claim: str
    beside: tuple[str, ...] = ()
    """The interval, and whether it is the same training; of a proven claim only."""


def headline(evidence: Evidence) -> Headline:
    speed, numerics = evidence.speed, evidence.numerics
    if evidence.outcome == "recipe" and speed is not None and numerics is not None:
        same = "trains as well" if numerics.rung is Rung.PARITY else "stays the same training"
        claim = f"{evidence.task} trains {speed.ratio:.2f}x faster"
        beside = f"99 % interval {interval(speed.low, speed.high)}"
        if evidence.memory is not None and evidence.aim.leaves_pace_open(evidence.memory):
            claim, beside = _smaller(evidence.task, evidence.memory), _pace(speed)
        return Headline("PROVEN", "good", claim, (beside, f"and {same} ({numerics.rung})"))
    sooner = evidence.sooner()
    if evidence.outcome == "recipe" and sooner is not None:
        claim = f"{evidence.task} is at its target {sooner.ratio:.2f}x as soon"
        beside = f"99 % interval {interval(sooner.low, sooner.high)}"
        return Headline("PROVEN", "good", claim, (beside, f"by another training: {sooner.changes}"))
    claim = f"{evidence.task}: {evidence.why}"
    if evidence.outcome == "nothing_to_gain":
        return Headline("NOTHING TO GAIN", "plain", claim)
    word = "REFUTED" if evidence.verdict == "refuted" else "NOT PROVEN"
    return Headline(word, VERDICT_TONES[evidence.verdict], claim)


def _smaller(task: str, memory: MemoryClaim) -> str:
    now, before = size(memory.b_bytes), size(memory.a_bytes)
    return f"{task} takes {now} instead of {before} at the peak of a step"


def _pace(speed: SpeedClaim) -> str:
    """What a lower peak costs, or gains beside it."""
    if speed.ratio < 1:
        slower = interval(1 / speed.high, 1 / speed.low)
        return f"{1 / speed.ratio:.2f}x the time, 99 % interval {slower}"
    return f"{speed.ratio:.2f}x faster, 99 % interval {interval(speed.low, speed.high)}"


def spelled(word: str) -> str:
    """An outcome or a verdict, as people write it."""
    return word.replace("_", " ")


def standing(trial: Trial, evidence: Evidence) -> tuple[str, Tone, str]:
    """What became of it in the end, with the reason: the search keeps what a proof may take out."""
    dropped = evidence.dropped.get(trial.candidate.technique)
    if trial.outcome == "kept" and dropped is not None:
        return "dropped", "doubt", dropped
    return spelled(trial.outcome), TONES.get(trial.outcome, "doubt"), trial.why


def setting_of(trial: Trial, evidence: Evidence) -> str:
    """What tells it apart from others of its technique; empty where nothing does."""
    same = [each.candidate for each in evidence.trials]
    name, part = trial.candidate.technique, trial.candidate.part
    parts = [each.part for each in same if each.technique == name]
    differing = [key for key in sorted(part) if any(one.get(key) != part[key] for one in parts)]
    return ", ".join(f"{key} = {part[key]}" for key in differing)


def disturbed(looked_at: Diagnosed) -> str:
    """What makes its findings unsure; empty where nothing does."""
    return f"These shares are not sure: {looked_at.disturbed}." if looked_at.disturbed else ""


def noise_of(evidence: Evidence) -> str:
    """Of a tuning without a claim: what may have hidden one."""
    control = evidence.control.middle()
    load = control.load
    found = f"identical processes differed by {100 * (control.apart() - 1):.1f} %"
    return "; ".join(filter(None, (found, load.disturbance() if load else None)))


def trial_ratio(trial: Trial) -> str:
    ratio = f"{trial.comparison.ratio:.2f}x" if trial.comparison else "-"
    return ratio if trial.peak_bytes is None else f"{ratio}, {size(trial.peak_bytes)}"


def trial_interval(trial: Trial) -> str:
    return interval(trial.comparison.low, trial.comparison.high) if trial.comparison else "-"


def worth_of(evidence: Evidence, speed: SpeedClaim) -> list[tuple[str, str]]:
    """Name and figure of all that a claim of speed comes with."""
    rate = f"{speed.a_rows_per_s:,.0f} -> {speed.b_rows_per_s:,.0f} rows/s"
    rows = [("throughput", f"{rate} (noise floor {100 * (speed.noise_floor - 1):.1f} %)")]
    if speed.disturbed_by:
        rows.append(("meanwhile", speed.disturbed_by))
    rows.append(("break-even", _paid_back(evidence, speed)))
    if evidence.memory is not None:
        rows.append(("peak of a step", peak_of_a_step(evidence.memory)))
    confirmation = evidence.confirmation
    if confirmation is not None and confirmation.a_memory and confirmation.b_memory:
        before, after = peak_memory(confirmation.a_memory), peak_memory(confirmation.b_memory)
        rows.append(("peak memory", f"{before} -> {after}"))
    return [*rows, ("tuning took", duration(evidence.spent.total_s()))]


def peak_of_a_step(memory: MemoryClaim) -> str:
    limit = f", {size(memory.allowed_bytes)} allowed" if memory.allowed_bytes else ""
    return f"{size(memory.a_bytes)} -> {size(memory.b_bytes)}{limit}"


def _paid_back(evidence: Evidence, speed: SpeedClaim) -> str:
    rows, took = evidence.break_even_rows(), duration(evidence.spent.total_s())
    if rows is None:
        return f"never, with the {took} that tuning took"
    trained = duration(rows / speed.a_rows_per_s)
    return f"after {trained} of the naive training, with the {took} that tuning took"


def warm_up_paid_back(speed: SpeedClaim) -> str:
    if speed.warmup_extra_s <= 0:
        return "it takes no longer to warm up"
    extra = f"{duration(speed.warmup_extra_s)} more to warm up"
    if speed.break_even_rows is None:
        return f"{extra}, never paid back"
    return f"{extra}, paid back after {speed.break_even_rows:,.0f} rows"


def by_hand(evidence: Evidence) -> list[tuple[str, str]]:
    return [
        ("rewrite", f"{each.place}: {each.advice}")
        for each in evidence.naive().findings
        if each.code == REWRITTEN_BY_HAND
    ]


def use_it(out: str) -> str:
    return f"hasten.PerformanceOptimizer.from_recipe({out + '/recipe.toml'!r})"


def tune_it(evidence: Evidence, out: str) -> str:
    """The command that the evidence came of."""
    task = shlex.quote(printable(evidence.task))
    allow = " --allow batch-size" if evidence.larger_batch else ""
    given = f"--minutes {evidence.minutes:g} --seed {evidence.seed} --out {shlex.quote(out)}"
    return f"hasten tune {task}{_aim(evidence.aim)}{allow} {given}"


def _aim(aim: Aim) -> str:
    goal = " --goal memory" if aim.goal == "memory" else ""
    return goal if aim.memory_bytes is None else f"{goal} --memory {aim.memory_bytes}"


def check_it(evidence: Evidence, out: str) -> str:
    """What changes the training is proven by trainings, which only tuning does."""
    if evidence.changed() is not None:
        return tune_it(evidence, out)
    task, recipe = shlex.quote(printable(evidence.task)), shlex.quote(f"{out}/recipe.toml")
    return f"hasten prove {task} {recipe}"
