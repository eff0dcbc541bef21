"""The cards of ``hasten bench`` and ``hasten prove``."""

from rich.console import Group, RenderableType
from rich.text import Text

from hasten.records.parity import ParityFigure
from hasten.records.report import BenchReport, ProofReport
from hasten.records.verdict import SpeedClaim, Verdict
from hasten.report.text import printable

STYLES: dict[Verdict, str] = {
    "proven": "bold green",
    "not_proven": "bold yellow",
    "refuted": "bold red",
}


def bench_card(report: BenchReport) -> RenderableType:
    a, b = printable(report.a), printable(report.b)
    if report.speed is None:
        why = report.confirmation.failure or _not_run(report)
        return _headline("not_proven", f"{b} against {a}: {printable(why)}")
    claim = f"that {b} is faster than {a}"
    if report.verdict == "proven":
        claim = f"{b} is faster than {a}"
    verdict = report.verdict
    if report.regression:
        verdict, claim = "proven", f"{b} is slower than {a}"
    lines = [_headline(verdict, claim), _figures(report.speed)]
    for name, plan in ((a, report.plan_a), (b, report.plan_b)):
        if str(plan) != name:
            lines.append(Text(f"  {name} is {plan}"))
    if verdict != "proven":
        lines.append(Text(f"  {_why_not(report.speed)}"))
    lines.append(Text("  Only speed was compared; hasten prove shows whether training stays same."))
    return Group(*lines)


def _why_not(speed: SpeedClaim) -> str:
    if speed.low <= speed.noise_floor <= speed.high or speed.noise_floor > speed.high > 1:
        return (
            f"Two identical runs differed by up to {speed.noise_floor:.3f}x here, and the interval "
            "is not clear of that; try a quieter machine."
        )
    return "The interval shows no gain."


def proof_card(report: ProofReport) -> RenderableType:
    lines: list[RenderableType] = [_headline(report.verdict, printable(report.why))]
    if report.speed is not None:
        lines.append(_figures(report.speed))
    lines += [
        Text(f"  {check.name}: {check.verdict.replace('_', ' ')}, {printable(check.why)}")
        for check in report.numerics.checks
    ]
    if report.numerics.parity is not None:
        lines += [Text(f"    {_figure(each)}") for each in report.numerics.parity.figures]
    lines += [Text(f"  made on another machine: {printable(d)}") for d in report.differences]
    return Group(*lines)


def _figure(figure: ParityFigure) -> str:
    return (
        f"{printable(figure.name)}: {figure.naive:.4g}, by the plan {figure.difference:+.2g}"
        f" ({figure.low:+.2g} to {figure.high:+.2g}); margin {figure.margin:.2g},"
        f" another seed {figure.spread:.2g}: {figure.likeness}"
    )


def _headline(verdict: Verdict, text: str) -> Text:
    word = Text(verdict.replace("_", " ").upper(), style=STYLES[verdict])
    return word.append(f"  {text}", style="not bold default")


def _figures(speed: SpeedClaim) -> Text:
    return Text(
        f"  {speed.ratio:.3f}x, 99 % interval {speed.low:.3f}x to {speed.high:.3f}x"
        f" ({speed.a_rows_per_s:,.0f} -> {speed.b_rows_per_s:,.0f} rows/s);"
        f" noise here {speed.noise_floor:.3f}x"
    )


def _not_run(report: BenchReport) -> str:
    lost = [each for each in report.confirmation.applied if each.outcome != "done"]
    return "; ".join(dict.fromkeys(str(each) for each in lost))
