"""The verdict card of a tuning: verdict, why, what was tried, what it is worth, next."""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hasten.records.recipe import Evidence
from hasten.records.trial import Outcome, Trial
from hasten.records.verdict import NumericsClaim
from hasten.report.text import duration, peak_memory, printable, size

STYLES: dict[Outcome, str] = {
    "kept": "green",
    "refuted": "red",
    "failed": "red",
    "out_of_memory": "red",
}

REWRITTEN_BY_HAND = "unfused-attention"
"""The finding that no technique answers, only its author."""


def tune_card(evidence: Evidence, out: str) -> RenderableType:
    sections: list[RenderableType] = [_verdict(evidence)]
    sections += _section("Why it was slow", _findings(evidence))
    sections += _section("Tried, each on top of what was kept before it", _trials(evidence))
    if evidence.numerics is not None:
        sections += _section("Is it the same training?", _checks(evidence.numerics))
    if evidence.outcome == "recipe":
        sections += _section("What it is worth", _worth(evidence))
    sections += _section("Next", Text("\n".join(_next(evidence, printable(out)))))
    return Group(*sections)


def _verdict(evidence: Evidence) -> Text:
    task, speed = printable(evidence.task), evidence.speed
    if evidence.outcome == "recipe" and evidence.aim.goal == "memory":
        return _smaller(evidence, task)
    if evidence.outcome == "recipe" and speed is not None and evidence.numerics is not None:
        head = Text("PROVEN", style="bold green")
        head.append(f"  {task} trains {speed.ratio:.2f}x faster", style="bold")
        head.append(f" (99 % interval {speed.low:.2f}x to {speed.high:.2f}x)\n")
        head.append(f"        and stays the same training ({evidence.numerics.rung})")
        return head
    if evidence.outcome == "nothing_to_gain":
        head = Text("NOTHING TO GAIN", style="bold")
        return head.append(f"  {task}: {printable(evidence.why)}", style="not bold")
    word = "REFUTED" if evidence.verdict == "refuted" else "NOT PROVEN"
    return Text(word, style="bold red").append(f"  {task}: {printable(evidence.why)}", style="")


def _smaller(evidence: Evidence, task: str) -> Text:
    memory, speed, numerics = evidence.memory, evidence.speed, evidence.numerics
    assert memory is not None  # as it was the goal
    assert speed is not None
    assert numerics is not None
    head = Text("PROVEN", style="bold green")
    head.append(f"  {task} takes {size(memory.b_bytes)} instead of {size(memory.a_bytes)}", "bold")
    pace = f"{1 / speed.ratio:.2f}x the time" if speed.ratio < 1 else f"{speed.ratio:.2f}x faster"
    head.append(f" at the peak of a step, {pace},\n")
    return head.append(f"        and stays the same training ({numerics.rung})")


def _section(title: str, body: RenderableType) -> list[RenderableType]:
    return [Text(f"\n{title}", style="bold"), Padding(body, (0, 0, 0, 2))]


def _findings(evidence: Evidence) -> RenderableType:
    if not evidence.naive().findings:
        return Text("No part of a step stands out.")
    table = _grid()
    for finding in evidence.naive().findings:
        place = f"  {finding.place}" if finding.place else ""
        title = Text(printable(finding.title)).append(printable(place), style="dim")
        table.add_row(Text(printable(finding.code)), title)
    return table


def _trials(evidence: Evidence) -> RenderableType:
    if not evidence.trials:
        return Text("Nothing: no technique answers these findings.")
    table = _grid()
    for trial in evidence.trials:
        word = trial.outcome.replace("_", " ")
        style = STYLES.get(trial.outcome, "yellow")
        name = Text(printable(trial.candidate.technique))
        table.add_row(name, _ratio(trial), Text(word, style=style), Text(printable(trial.why)))
    return table


def _checks(numerics: NumericsClaim) -> RenderableType:
    table = _grid()
    for check in numerics.checks:
        table.add_row(check.name, check.verdict.replace("_", " "), Text(printable(check.why)))
    return table


def _ratio(trial: Trial) -> str:
    ratio = f"{trial.comparison.ratio:.2f}x" if trial.comparison else "-"
    return ratio if trial.peak_bytes is None else f"{ratio}, {size(trial.peak_bytes)}"


def _worth(evidence: Evidence) -> RenderableType:
    speed = evidence.speed
    assert speed is not None  # a recipe has a speed claim
    table = _grid()
    rate = f"{speed.a_rows_per_s:,.0f} -> {speed.b_rows_per_s:,.0f} rows/s"
    noise = f"noise floor {100 * (speed.noise_floor - 1):.1f} %"
    table.add_row("throughput", f"{rate} ({noise})")
    if speed.disturbed_by:
        table.add_row("beside it", speed.disturbed_by)
    if speed.break_even_rows is not None and speed.warmup_extra_s > 0:
        extra = f"{duration(speed.warmup_extra_s)} more to warm up"
        table.add_row("break-even", f"{extra}, paid back after {speed.break_even_rows:,.0f} rows")
    else:
        table.add_row("break-even", "at once: it takes no longer to warm up")
    if evidence.memory is not None:
        claim = evidence.memory
        limit = f", {size(claim.allowed_bytes)} allowed" if claim.allowed_bytes else ""
        table.add_row("peak of a step", f"{size(claim.a_bytes)} -> {size(claim.b_bytes)}{limit}")
    confirmation = evidence.confirmation
    if confirmation is not None and confirmation.a_memory and confirmation.b_memory:
        before, after = confirmation.a_memory, confirmation.b_memory
        table.add_row("peak memory", f"{peak_memory(before)} -> {peak_memory(after)}")
    table.add_row("tuning took", duration(evidence.spent.total_s()))
    return table


def _next(evidence: Evidence, out: str) -> list[str]:
    by_hand = [
        f"rewrite   {each.place}: {each.advice}"
        for each in evidence.naive().findings
        if each.code == REWRITTEN_BY_HAND
    ]
    return [*by_hand, *_next_commands(evidence, out)]


def _next_commands(evidence: Evidence, out: str) -> list[str]:
    late = any(trial.outcome == "out_of_time" for trial in evidence.trials)
    if evidence.outcome == "recipe":
        return [
            f"use it    hasten.PerformanceOptimizer.from_recipe({out + '/recipe.toml'!r})",
            f"check it  hasten prove {printable(evidence.task)} {out}/recipe.toml",
            f"read it   {out}/recipe.toml; all that was measured is in {out}/evidence.json",
        ]
    if evidence.outcome == "nothing_to_gain":
        return [f"Nothing to apply. All that was measured is in {out}/evidence.json"]
    return [
        "Run it again with more --minutes." if late else "Run it again on a quieter machine.",
        f"All that was measured is in {out}/evidence.json",
    ]


def _grid() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for _ in range(2):
        table.add_column()
    return table
