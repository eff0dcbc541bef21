"""The card of ``hasten prove``."""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from hasten.records.parity import ParityFigure
from hasten.records.report import ProofReport
from hasten.records.verdict import NumericsClaim, SpeedClaim, Verdict
from hasten.report.bench import beside_it
from hasten.report.text import interval, printable
from hasten.report.tuning import peak_of_a_step

STYLES: dict[Verdict, str] = {
    "proven": "bold green",
    "not_proven": "bold yellow",
    "refuted": "bold red",
}


def proof_card(report: ProofReport) -> RenderableType:
    lines: list[RenderableType] = [_headline(report.verdict, printable(report.why))]
    if report.speed is not None:
        lines += [figures_of(report.speed), *beside_it(report.speed)]
    if report.memory is not None:
        lines.append(Text(f"  peak of a step: {peak_of_a_step(report.memory)}"))
    lines += checks_of(report.numerics)
    if report.numerics.parity is not None:
        lines += [Text(f"    {_figure(each)}") for each in report.numerics.parity.figures]
    lines += [Text(f"  made on another machine: {printable(d)}") for d in report.differences]
    return Group(*lines)


def _figure(figure: ParityFigure) -> str:
    return (
        f"{printable(figure.name)}: {figure.naive:.4g}, the plan differs by"
        f" {figure.difference:+.2g} ({figure.low:+.2g} to {figure.high:+.2g});"
        f" margin {figure.margin:.2g},"
        f" between seeds {figure.spread:.2g}: {figure.likeness}"
    )


def _headline(verdict: Verdict, text: str) -> Text:
    word = Text(verdict.replace("_", " ").upper(), style=STYLES[verdict])
    return word.append(f"  {text}", style="not bold default")


def checks_of(numerics: NumericsClaim) -> list[Padding]:
    """Each wraps under itself."""
    lines = [
        f"{check.name}: {check.verdict.replace('_', ' ')}, {printable(check.why)}"
        for check in numerics.checks
    ]
    return [Padding(Text(each), (0, 0, 0, 2)) for each in lines]


def figures_of(speed: SpeedClaim) -> Text:
    return Text(
        f"  {speed.ratio:.3f}x, 99 % interval {interval(speed.low, speed.high, 3)}"
        f" ({speed.a_rows_per_s:,.0f} -> {speed.b_rows_per_s:,.0f} rows/s);"
        f" noise here {speed.noise_floor:.3f}x"
    )
