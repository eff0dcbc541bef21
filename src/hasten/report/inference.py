"""The card of ``hasten bench --inference``."""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hasten.records.inference import InferenceReport, InferenceSize
from hasten.report.bench import headline, ratio_in_words
from hasten.report.text import duration, printable


def inference_card(report: InferenceReport) -> RenderableType:
    lines: list[RenderableType] = []
    for size in report.sizes:
        lines.append(headline(size.outcome, f"{_rows(size)}: {_verdict(report, size)}"))
        lines.append(Padding(_table(report, size), (0, 0, 0, 2)))
    for name, plan in ((report.a, report.plan_a), (report.b, report.plan_b)):
        if str(plan) != name:
            lines.append(Text(f"  {printable(name)} is {plan} in evaluation"))
    if report.with_loss:
        lines.append(Text("  The loss is in these times: the task has a forward of its own."))
    return Group(*lines)


def _rows(size: InferenceSize) -> str:
    return "1 row a call" if size.rows == 1 else f"{size.rows} rows a call"


def _verdict(report: InferenceReport, size: InferenceSize) -> str:
    if size.speed is None:
        lost = [each for each in size.confirmation.applied if each.outcome != "done"]
        return "; ".join(dict.fromkeys(str(each) for each in lost))
    return ratio_in_words(size.outcome, report.a, report.b, size.speed)


def _table(report: InferenceReport, size: InferenceSize) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for heading in ("", report.a, report.b):
        table.add_column(Text(printable(heading)))
    for name, a, b in (
        ("latency, median", size.a.median_s, size.b.median_s),
        ("95th percentile", size.a.p95_s, size.b.p95_s),
        ("99th percentile", size.a.p99_s, size.b.p99_s),
    ):
        table.add_row(name, duration(a), duration(b))
    if size.speed is not None:
        rates = (size.speed.a_rows_per_s, size.speed.b_rows_per_s)
        table.add_row("rows/s", *(f"{rate:,.0f}" for rate in rates))
    pairs = size.confirmation.pairs
    warm_ups = ([each.a_warmup_s for each in pairs], [each.b_warmup_s for each in pairs])
    table.add_row("warm-up", *(duration(sum(each) / len(each)) for each in warm_ups))
    return table
