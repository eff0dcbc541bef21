"""How fast a tuning made a task, as sections of a report: the gain and its parts, the step's time
before and after, memory, break-even."""

from collections.abc import Mapping

from hasten.records.measurement import Measurement, Memory
from hasten.records.recipe import Evidence
from hasten.records.trial import Trial
from hasten.records.tuning import Diagnosed, Worth
from hasten.report.blocks import Block, Cell, Chart, Grid, Section, Tone, Words, code, make_grid
from hasten.report.charts import Span, spans, stacked
from hasten.report.profile import PHASES, RARE_PHASES
from hasten.report.shares import percents
from hasten.report.text import duration, interval, size
from hasten.report.tuning import (
    VERDICT_TONES,
    disturbed,
    peak_of_a_step,
    spelled,
    trial_interval,
    trial_ratio,
    warm_up_paid_back,
)

SPENT = {
    "measuring_s": "measuring the naive training and the noise",
    "search_s": "searching",
    "ablation_s": "what each part is worth",
    "confirmation_s": "confirming in fresh processes",
    "proof_s": "proving that the training stays the same",
    "curves_s": "training seeds for the loss curves",
    "larger_batch_s": "larger batches",
}
SHORTEST_S = 0.1
"""What took less was not done."""
MEMORY = {
    "host_bytes": "the process",
    "device_allocated_bytes": "the device, allocated",
    "device_reserved_bytes": "the device, reserved",
}


def gain(evidence: Evidence) -> Section:
    kept = [trial for trial in evidence.trials if trial.outcome == "kept"]
    blocks: list[Block] = []
    if kept or evidence.speed is not None:
        blocks += _waterfall(evidence, kept)
    else:
        blocks.append(
            Words(f"Nothing was kept{_at_this_batch(evidence)}: the training is as it was.")
        )
    if evidence.confirmation is not None and evidence.confirmation.failure:
        why = evidence.confirmation.failure.rstrip(".")
        blocks.append(Words(f"Fresh processes did not finish: {why}."))
    if evidence.confirmation is not None and evidence.confirmation.begun_again:
        blocks.append(Words(f"One pair was begun again: {evidence.confirmation.begun_again}"))
    blocks += _parts(evidence)
    if evidence.dropped:
        rows = [(code(name), why) for name, why in evidence.dropped.items()]
        blocks += [
            Words("The search had kept these, and the plan goes without them:"),
            make_grid(("dropped", "why"), rows),
        ]
    return Section("From naive to final", tuple(blocks))


def _at_this_batch(evidence: Evidence) -> str:
    return " at the task's own batch" if evidence.larger_batch else ""


def _waterfall(evidence: Evidence, kept: list[Trial]) -> list[Block]:
    """What the search saw, one on top of the other; then what fresh processes say."""
    bars = [Span("naive", "1.00x", 0.0, 1.0)]
    rows: list[tuple[str | Cell, ...]] = [("naive", "1.00x", "", "")]
    at = 1.0
    tone: Tone
    for trial in kept:
        name, ratio = trial.candidate.technique, trial.comparison.ratio if trial.comparison else 1.0
        tone, later = ("doubt", ", dropped") if name in evidence.dropped else ("good", "")
        bars.append(Span(f"+ {name}", f"{at * ratio:.2f}x{later}", at, at * ratio, tone=tone))
        at *= ratio
        change = code(trial.candidate.words())
        rows.append((change, f"{at:.2f}x", trial_ratio(trial), trial_interval(trial)))
    speed = evidence.speed
    if speed is not None:
        unclaimed = evidence.aim.leaves_pace_open(evidence.memory)
        doubt = "" if unclaimed or speed.verdict == "proven" else f", {spelled(speed.verdict)}"
        shown = f"fresh processes{doubt}"
        reach, figure = (speed.low, speed.high), f"{speed.ratio:.2f}x"
        stands = evidence.verdict == "proven"
        tone = "plain" if unclaimed and stands else VERDICT_TONES[evidence.verdict]
        bars.append(Span(shown, figure, 0.0, speed.ratio, reach, tone))
        rows.append((shown, figure, "", interval(*reach)))
    title = "; ".join(f"{each.label} {each.figure}" for each in bars)
    headings = ("", "in all", "on top", "interval")
    return [
        Chart(spans(bars, f"How many times as fast as naive: {title}", mark=1.0)),
        make_grid(headings, rows, figures=(1, 2, 3)),
    ]


def _parts(evidence: Evidence) -> list[Block]:
    if not evidence.plan.parts:
        return []
    worth = {each.technique: each for each in evidence.worth}
    applied = {}
    if evidence.confirmation is not None:
        applied = {each.technique: each for each in evidence.confirmation.applied}
    rows = []
    for name, part in evidence.plan.parts.items():
        settings = ", ".join(f"{key} = {value}" for key, value in part.items())
        done = applied.get(name)
        did = f"{spelled(done.outcome)}: {done.why}" if done else "-"
        rows.append((code(name), code(settings) if settings else "-", _worth(worth.get(name)), did))
    headings = ("part of the plan", "settings", "worth in place", "in fresh processes")
    return [Words(_about_worth(evidence)), make_grid(headings, rows)]


def _about_worth(evidence: Evidence) -> str:
    if evidence.worth:
        return (
            "A part's worth in place is how many times faster the whole plan is with it than"
            " without it. Parts work together, so these figures need not multiply to the whole."
            " Each is of one pair of processes, which may differ by themselves: it tells which part"
            " matters, and only the figure of the whole plan is a claim."
        )
    if len(evidence.plan.parts) == 1:
        return "The plan has one part, which is worth what the plan is."
    return "What each part is worth in place was not measured."


def _worth(worth: Worth | None) -> str:
    if worth is None:
        return "-"
    if worth.failure:
        return f"not measured: {worth.failure}"
    lost = f", with {', '.join(worth.lost)}" if worth.lost else ""
    return f"{worth.ratio:.2f}x ({interval(worth.low, worth.high)}){lost}"


def step_time(evidence: Evidence) -> Section:
    title = "Where a step's time went"
    sides = {"naive": evidence.naive()}
    now = evidence.under_plan()
    if now is not None:
        sides["by the plan"] = now
    blocks = _phases({name: each.measurement for name, each in sides.items()})
    if now is None and evidence.plan.parts:
        blocks.append(Words("Where it goes by the plan was not measured."))
    elif now is None:
        blocks.append(Words("There is no plan to compare it with."))
    else:
        blocks.append(Words(f"By the plan a step is {now.limit}: {now.why}."))
        if words := disturbed(now):
            blocks.append(Words(words))
    words = "Medians of one profiled run: they tell where the time goes. How much faster it is,"
    blocks.append(Words(f"{words} the verdict tells, from runs that took turns."))
    return Section(title, tuple(blocks))


def _phases(sides: Mapping[str, Measurement]) -> list[Block]:
    steps = {name: each.typical_step() for name, each in sides.items()}
    shown = {
        field: name
        for field, name in PHASES.items()
        if field not in RARE_PHASES or any(getattr(each, field) for each in steps.values())
    }
    parts = {
        side: {name: float(getattr(step, field)) for field, name in shown.items()}
        for side, step in steps.items()
    }
    wholes = {side: duration(sum(each.values())) for side, each in parts.items()}
    columns = [_shares(each) for each in parts.values()]
    rows = [(name, *(each[name] for each in columns)) for name in shown.values()]
    title = "; ".join(
        f"{side} {wholes[side]}: {', '.join(f'{name} {words}' for name, words in column.items())}"
        for side, column in zip(parts, columns, strict=True)
    )
    return [
        Chart(stacked(parts, wholes, f"The median step, {title}")),
        make_grid(("", *parts), rows, figures=range(1, 1 + len(parts))),
    ]


def _shares(parts: Mapping[str, float]) -> dict[str, str]:
    return {
        name: f"{duration(value)} ({share:.1f} %)"
        for (name, value), share in zip(parts.items(), percents(list(parts.values())), strict=True)
    }


def memory(evidence: Evidence) -> Section:
    confirmation = evidence.confirmation
    now = evidence.under_plan()
    before: Memory | None = evidence.naive().measurement.memory
    after = now.measurement.memory if now else None
    if confirmation is not None and confirmation.a_memory and confirmation.b_memory:
        before, after = confirmation.a_memory, confirmation.b_memory
    rows = [
        (name, getattr(before, field, None), getattr(after, field, None))
        for field, name in MEMORY.items()
    ]
    rows.append(("tensors of a step", _tensors(evidence.naive()), _tensors(now)))
    measured = [_memory_row(*row) for row in rows if row[1] is not None or row[2] is not None]
    if not measured:
        return Section("Memory", (Words("It was not measured."),))
    headings = ("at its peak", "naive", "by the plan", "")
    blocks: list[Block] = [make_grid(headings, measured, figures=(1, 2, 3))]
    if evidence.memory is not None:
        peak = peak_of_a_step(evidence.memory)
        blocks.insert(0, Words(f"A step's tensors, in fresh processes: {peak}."))
    return Section("Memory", tuple(blocks))


def _tensors(diagnosed: Diagnosed | None) -> int | None:
    return diagnosed.peak_bytes if diagnosed else None


def _memory_row(name: str, before: int | None, after: int | None) -> tuple[str, ...]:
    ratio = f"{after / before:.2f}x" if before and after is not None else ""
    return (name, *("-" if each is None else size(each) for each in (before, after)), ratio)


def break_even(evidence: Evidence) -> Section:
    took = duration(evidence.spent.total_s())
    blocks: list[Block] = []
    speed = evidence.speed
    if speed is None or evidence.outcome != "recipe":
        proven = f"There is no proven plan{_at_this_batch(evidence)}"
        words = f"{proven}, so that nothing pays back what tuning took"
        blocks.append(Words(f"{words}: {took}."))
    else:
        alone = warm_up_paid_back(speed)
        blocks.append(Words(f"{alone[0].upper()}{alone[1:]}."))
        rows = evidence.break_even_rows()
        blocks.append(Words(_with_tuning(evidence, rows, speed.a_rows_per_s, took)))
        if speed.ratio <= 1:
            return Section("When it pays back", (*blocks, _spent(evidence)))
        hour = duration(3600 / speed.ratio)
        blocks.append(Words(f"From then on, what was an hour of training takes {hour}."))
    return Section("When it pays back", (*blocks, _spent(evidence)))


def _with_tuning(evidence: Evidence, rows: float | None, naive: float, took: str) -> str:
    if rows is None:
        return f"The {took} that tuning took are never paid back."
    after = f"{rows:,.0f} rows, {duration(rows / naive)} of the naive training"
    if evidence.traits.data.rows:
        after += f", {rows / evidence.traits.data.rows:,.1f} epochs"
    return f"With the {took} that tuning took: paid back after {after}."


def _spent(evidence: Evidence) -> Grid:
    rows: list[tuple[str | Cell, ...]] = [
        (name, duration(getattr(evidence.spent, field)))
        for field, name in SPENT.items()
        if getattr(evidence.spent, field) > SHORTEST_S
    ]
    rows.append(("all", duration(evidence.spent.total_s())))
    return make_grid(("tuning", "took"), rows, figures=(1,))
