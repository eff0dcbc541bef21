"""The cards of ``hasten bench``: two arms, a figure that was kept, one held against it."""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hasten.records.measurement import Memory
from hasten.records.report import BenchReport
from hasten.records.saved_bench import REFERENCE_ARM, GateReport, SavedBench
from hasten.records.verdict import Decision, SpeedClaim
from hasten.report.text import duration, interval, peak_memory, printable

WORDS: dict[Decision, tuple[str, str]] = {
    "faster": ("FASTER", "bold green"),
    "slower": ("SLOWER", "bold red"),
    "same": ("SAME", "bold"),
    "undecided": ("NO VERDICT", "bold yellow"),
}


def bench_card(report: BenchReport) -> RenderableType:
    if report.speed is None:
        why = report.confirmation.failure or _not_run(report)
        return headline("undecided", f"{report.b} against {report.a}: {why}")
    lines: list[RenderableType] = [
        headline(report.outcome, ratio_in_words(report.outcome, report.a, report.b, report.speed)),
        Padding(_table(report, report.speed), (0, 0, 0, 2)),
    ]
    for name, plan in ((report.a, report.plan_a), (report.b, report.plan_b)):
        if plan.parts and str(plan) != name:
            lines.append(Text(f"  {printable(name)} is {plan}"))
    lines += beside_it(report.speed)
    lines.append(
        Text("  Only speed was compared; hasten prove shows whether the training stays the same.")
    )
    return Group(*lines)


def beside_it(speed: SpeedClaim) -> list[Text]:
    """What else the machine was doing, where that is notable."""
    return [Text(f"  meanwhile, {speed.disturbed_by}")] if speed.disturbed_by else []


def saved_card(saved: SavedBench, path: str) -> RenderableType:
    low, high = min(each.low for each in saved.pairs), max(each.high for each in saved.pairs)
    figure = f"{low:.4g}x to {high:.4g}x the rows a second of {_shown(saved.a)}"
    return Group(
        Text("SAVED", style="bold").append(
            f"  {printable(saved.b)} makes {figure}, in {len(saved.pairs)} pairs of processes",
            style="not bold",
        ),
        Text(f"  Later: hasten bench {printable(saved.task)} --against {printable(path)}"),
    )


def gate_card(report: GateReport) -> RenderableType:
    change = report.change
    took = f"{report.b} takes {change.times:.3f} times as long as when it was saved"
    reach = f"{100 * change.confidence:.0f} % interval {change.low:.3f} to {change.high:.3f}"
    lines = [
        headline(change.decision, f"{took} ({reach})"),
        Text(f"  {_judged(report)}"),
        Text(f"  measured beside {_shown(report.a)}, in {len(report.pairs)} pairs of processes"),
        Text(f"  peak memory {peak_memory(report.saved_memory)} -> {peak_memory(report.b_memory)}"),
    ]
    return Group(*lines)


def _judged(report: GateReport) -> str:
    allowed = f"{100 * report.change.margin:.0f} %"
    return {
        "slower": f"A regression: slower by more than the {allowed} that are allowed.",
        "faster": f"Faster by more than {allowed}: save anew, so that it stays so.",
        "same": f"No regression: slower by less than {allowed}, if at all.",
        "undecided": f"Neither a regression of more than {allowed} nor none: too noisy to tell.",
    }[report.change.decision]


def ratio_in_words(outcome: Decision, a: str, b: str, speed: SpeedClaim) -> str:
    figure = f"{speed.ratio:.3f}x (99 % interval {interval(speed.low, speed.high, 3)})"
    noise = f"the noise of {speed.noise_floor:.3f}x"
    return {
        "faster": f"{b} is faster than {a}: {figure}, beyond {noise}",
        "slower": f"{b} is slower than {a}: {figure}, beyond {noise}",
        "same": f"{b} is as fast as {a}: {figure}",
        "undecided": f"{b} against {a}: {figure}, not clear of {noise}; try a quieter machine",
    }[outcome]


def _table(report: BenchReport, speed: SpeedClaim) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for heading in ("", report.a, report.b, ""):
        table.add_column(Text(printable(heading)))
    table.add_row("rows/s", f"{speed.a_rows_per_s:,.0f}", f"{speed.b_rows_per_s:,.0f}")
    a_memory, b_memory = report.confirmation.a_memory, report.confirmation.b_memory
    if a_memory is not None and b_memory is not None:
        ratio = _memory_ratio(a_memory, b_memory)
        table.add_row("peak memory", peak_memory(a_memory), peak_memory(b_memory), ratio)
    pairs = report.confirmation.pairs
    a_s = sum(each.a_warmup_s for each in pairs) / len(pairs)
    b_s = sum(each.b_warmup_s for each in pairs) / len(pairs)
    table.add_row("warm-up", duration(a_s), duration(b_s), _break_even(report, speed))
    return table


def _memory_ratio(a: Memory, b: Memory) -> str:
    """Of the peaks that are shown."""
    if a.device_allocated_bytes and b.device_allocated_bytes is not None:
        return f"{b.device_allocated_bytes / a.device_allocated_bytes:.2f}x"
    if a.host_bytes and b.host_bytes is not None:
        return f"{b.host_bytes / a.host_bytes:.2f}x"
    return ""


def _break_even(report: BenchReport, speed: SpeedClaim) -> str:
    if speed.warmup_extra_s <= 0:
        return "no longer than before"
    if report.outcome != "faster" or speed.break_even_rows is None:
        return "not paid back"
    rows = speed.break_even_rows
    after = f"{rows:,.0f} rows"
    if report.batch_size:
        after = f"{rows / report.batch_size:,.0f} steps"
    return f"paid back after {after} ({duration(rows / speed.a_rows_per_s)} of training)"


def headline(decision: Decision, text: str) -> Text:
    word, style = WORDS[decision]
    return Text(word, style=style).append(f"  {printable(text)}", style="not bold default")


def _shown(name: str) -> str:
    return "the reference workload" if name == REFERENCE_ARM else printable(name)


def _not_run(report: BenchReport) -> str:
    lost = [each for each in report.confirmation.applied if each.outcome != "done"]
    return "; ".join(dict.fromkeys(str(each) for each in lost))
