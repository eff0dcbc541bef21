"""The card of a training: how it ended, what came of it, how fast it was, next."""

import math
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hasten.records.checkpoint import MODEL
from hasten.records.training import RecipeClaim, TrainingSummary
from hasten.report.lines import Rows, unbroken
from hasten.report.text import duration, metrics_in_words, number, peak_memory, printable

STYLES = {"done": "green", "skipped": "yellow", "fell_back": "red"}


NO_EVALUATION = "none"


def summary_card(
    summary: TrainingSummary, *, go_on: str = "", no_evaluation: str = NO_EVALUATION
) -> RenderableType:
    """``go_on`` is the command that goes on with this training, ``no_evaluation`` what is said
    where there is none."""
    sections: list[RenderableType] = [_headline(summary)]
    sections += _section("What came of it", Rows(_results(summary, no_evaluation)))
    sections += _section("How fast it was", Rows(_speed(summary)))
    sections += _section("What was applied", _applied(summary))
    if summary.notes:
        sections += _section("Notes", Rows([("", printable(each)) for each in summary.notes]))
    sections += _section("Next", *_next(summary, go_on))
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


def _section(title: str, *body: RenderableType) -> list[RenderableType]:
    return [Text(f"\n{title}", style="bold"), *body]


def _results(summary: TrainingSummary, no_evaluation: str) -> list[tuple[str, str | Text]]:
    return [
        ("training loss", number(summary.loss)),
        ("evaluation", metrics_in_words(summary.metrics) or no_evaluation),
        ("checkpoint", unbroken(printable(_checkpoint(summary)))),
        ("log", unbroken(printable(summary.log or "none"))),
    ]


def _checkpoint(summary: TrainingSummary) -> str:
    path = summary.checkpoint or "none"
    return f"{path}, NOT HEALTHY: a weight is not finite" if summary.healthy is False else path


def _speed(summary: TrainingSummary) -> list[tuple[str, str]]:
    rows = [("throughput", f"{summary.rows_per_s:,.0f} rows/s")]
    if summary.claim is not None:
        rows.append(("the recipe", _share(summary.rows_per_s, summary.claim)))
    return [
        *rows,
        ("data wait", f"{100 * summary.data_wait:.1f} % of the time"),
        ("peak memory", peak_memory(summary.memory)),
        ("took", _took(summary)),
    ]


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
        return Rows([("", "Nothing: this was the naive training.")])
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for each in summary.applied:
        outcome = Text(each.outcome.replace("_", " "), style=STYLES[each.outcome])
        table.add_row(Text(printable(each.technique)), outcome, Text(printable(each.why)))
    return Padding(table, (0, 0, 0, 2))


def _next(summary: TrainingSummary, go_on: str) -> Sequence[RenderableType]:
    if summary.checkpoint is None:
        words = "Nothing was saved. Train with --checkpoint-dir DIR to keep the weights."
        return [Rows([("", words)])]
    weights = f"{summary.checkpoint}/{MODEL}"
    load = f"model.load_state_dict(safetensors.torch.load_file({weights!r}))"
    if summary.healthy is False:
        words = "The last weights are not finite: training never goes on from them."
        return [
            Rows([("", words)]),
            *(_to_copy("go on from the last checkpoint that is healthy", go_on) if go_on else ()),
        ]
    use = _to_copy("use it", load)
    if not go_on:
        return use
    if summary.outcome == "stopped":
        return [*_to_copy("resume", go_on), *use]
    return [*use, *_to_copy("train on, here to twice as much", go_on)]


def _to_copy(title: str, command: str) -> list[Text]:
    """The command has a line of its own."""
    return [Text(f"  {title}:"), unbroken(f"    {printable(command)}")]
