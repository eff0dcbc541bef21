"""The card of a training: how it ended, what came of it, how fast it was, next."""

import math

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hasten.records.checkpoint import MODEL
from hasten.records.training import RecipeClaim, TrainingSummary
from hasten.report.text import duration, number, peak_memory, printable

STYLES = {"done": "green", "skipped": "yellow", "fell_back": "red"}


def summary_card(summary: TrainingSummary, *, resume: str = "") -> RenderableType:
    """``resume`` is the command that goes on with this training."""
    sections: list[RenderableType] = [_headline(summary)]
    sections += _section("What came of it", _results(summary))
    sections += _section("How fast it was", _speed(summary))
    sections += _section("What was applied", _applied(summary))
    if summary.notes:
        sections += _section("Notes", Text("\n".join(map(printable, summary.notes))))
    sections += _section("Next", _grid(_next(summary, resume)))
    return Group(*sections)


def _headline(summary: TrainingSummary) -> Text:
    done = summary.outcome == "done"
    head = Text(summary.outcome.upper(), style="bold green" if done else "bold yellow")
    task = printable(summary.task or "the training")
    steps, epochs = _count(summary.step, "step"), _count(summary.epoch, "epoch")
    head.append(f"  {task}: {steps}, {epochs}", style="bold default")
    return head.append(f"\n{' ' * len(summary.outcome)}  {printable(summary.why)}", style="default")


def _count(count: int, unit: str) -> str:
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


def _section(title: str, body: RenderableType) -> list[RenderableType]:
    return [Text(f"\n{title}", style="bold"), Padding(body, (0, 0, 0, 2))]


def _results(summary: TrainingSummary) -> RenderableType:
    rows = [("training loss", number(summary.loss))]
    metrics = [f"{printable(name)} {number(value)}" for name, value in summary.metrics.items()]
    if metrics:
        rows.append(("evaluation", ", ".join(metrics)))
    rows += [
        ("checkpoint", printable(summary.checkpoint or "none")),
        ("log", printable(summary.log or "none")),
    ]
    return _grid(rows)


def _speed(summary: TrainingSummary) -> RenderableType:
    rows = [("throughput", f"{summary.rows_per_s:,.0f} rows/s")]
    if summary.claim is not None:
        rows.append(("the recipe", _share(summary.rows_per_s, summary.claim)))
    rows += [
        ("data wait", f"{100 * summary.data_wait:.1f} % of the time"),
        ("peak memory", peak_memory(summary.memory)),
        ("took", _took(summary)),
    ]
    return _grid(rows)


def _share(rows_per_s: float, claim: RecipeClaim) -> str:
    promise = f"{printable(claim.path)} was proven {claim.ratio:.2f}x as fast as the naive training"
    claimed = claim.rows_per_s
    if claimed is None or not math.isfinite(claimed) or claimed <= 0:
        return f"{promise}; at how many rows/s the recipe does not say"
    share = 100 * rows_per_s / claimed
    return f"{share:.0f} % of the {claimed:,.0f} rows/s at which {promise}"


def _took(summary: TrainingSummary) -> str:
    took = f"{duration(summary.elapsed_s)}, {_count(summary.rows, 'row')}"
    if summary.resumed_from is None:
        return took
    return f"{took} since it was resumed at step {summary.resumed_from:,}"


def _applied(summary: TrainingSummary) -> RenderableType:
    if not summary.applied:
        return Text("Nothing: this was the naive training.")
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for each in summary.applied:
        outcome = Text(each.outcome.replace("_", " "), style=STYLES[each.outcome])
        table.add_row(Text(printable(each.technique)), outcome, Text(printable(each.why)))
    return table


def _next(summary: TrainingSummary, resume: str) -> list[tuple[str, str]]:
    if summary.checkpoint is None:
        return [
            ("keep it", "Nothing was saved. Train with --checkpoint-dir DIR to keep the weights.")
        ]
    weights = f"{summary.checkpoint}/{MODEL}"
    use = ("use it", printable(f"model.load_state_dict(safetensors.torch.load_file({weights!r}))"))
    if not resume:
        return [use]
    if summary.outcome == "stopped":
        return [("resume", printable(resume)), use]
    return [use, ("go on", f"{printable(resume)}  # with a larger --epochs or --steps")]


def _grid(rows: list[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")  # paths and commands are to be copied
    for name, words in rows:
        table.add_row(Text(name), Text(words))
    return table
