"""The card of a profile: what a step is bound by, why, what next; then all the figures."""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hasten.records.finding import Finding, Place
from hasten.records.measurement import Measurement
from hasten.records.profile import (
    Bound,
    Ceilings,
    Launches,
    PeakMemory,
    ProfileReport,
    SyncSite,
    Work,
)
from hasten.report.code import TITLE, code_table
from hasten.report.shares import share_table
from hasten.report.text import duration, printable, rate, size

PHASES = {
    "data_wait_s": "data wait",
    "transfer_s": "transfer",
    "forward_s": "forward",
    "backward_s": "backward",
    "optimizer_s": "optimizer",
    "graph_s": "one graph",
    "host_s": "the rest",
}
RARE_PHASES = {"graph_s"}
"""Shown where there are any."""
HOLDERS = {
    "parameters_bytes": "parameters",
    "gradients_bytes": "gradients",
    "optimizer_bytes": "optimizer",
    "activations_bytes": "activations",
    "other_bytes": "other",
}
WITHOUT = {
    "loader": "a perfect loader",
    "syncs": "never waiting for the device",
    "optimizer": "a free optimizer",
}
SLOWEST = 4
"""Kernels that are shown; the document has some more."""
Rows = list[tuple[str, str]]


def profile_card(report: ProfileReport) -> RenderableType:
    sections: list[RenderableType] = [_verdict(report)]
    sections += _section("Next", _numbered(report.next))
    sections += _section(*_time(report))
    sections += _section(*_syncs(report))
    if report.code:
        sections += _section(TITLE, code_table(report.code))
    sections += _section("What the device does", _grid(_device(report)))
    sections += _section(*_memory(report.memory))
    sections += _section("What could be gained at most", _bounds(report.bounds))
    sections += _section("Findings", _findings(report))
    if report.notes:
        sections += _section("Notes", Text("\n".join(map(printable, report.notes))))
    sections += [Text(f"\n{_ending(report)}")]
    return Group(*sections)


def _verdict(report: ProfileReport) -> Table:
    words = Text(printable(report.task), style="bold")
    words.append(f", {printable(str(report.plan))}" if report.plan.parts else "")
    words.append(f"\n{printable(report.why)}", style="not bold")
    head = Table.grid(padding=(0, 2))
    head.add_column(no_wrap=True)
    head.add_row(Text(report.limit.upper(), style="bold yellow"), words)
    return head


def _section(title: str, body: RenderableType) -> list[RenderableType]:
    return [Text(f"\n{title}", style="bold"), Padding(body, (0, 0, 0, 2))]


def _numbered(sentences: tuple[str, ...]) -> RenderableType:
    if not sentences:
        return Text("Nothing: no part of a step stands out.")
    return _grid([(f"{at}.", sentence) for at, sentence in enumerate(sentences, 1)], gap=1)


def _time(report: ProfileReport) -> tuple[str, RenderableType]:
    measured = report.measurement
    step = measured.typical_step()
    total = step.total_s()
    rows = sum(measured.rows) / max(len(measured.rows), 1)
    speed = f", {rows / total:,.0f} rows/s" if total else ""
    found = {field: getattr(step, field) for field in PHASES}
    parts = {
        PHASES[field]: value for field, value in found.items() if value or field not in RARE_PHASES
    }
    body = Group(share_table(parts, duration), Text(_start(measured, total)))
    return f"Where the time of a step goes: {duration(total)}{speed}", body


def _start(measured: Measurement, step_s: float) -> str:
    """How long it takes until the first step is done."""
    before = {
        "import": measured.import_s,
        "build": measured.build_s,
        "first batch": measured.first_batch_s,
        "first step": measured.first_step_s,
    }
    parts = ", ".join(f"{name} {duration(seconds)}" for name, seconds in before.items())
    times = f" ({measured.first_step_s / step_s:,.0f} x a later one)" if step_s else ""
    return f"until the first was done {duration(sum(before.values()))}: {parts}{times}"


def _syncs(report: ProfileReport) -> tuple[str, RenderableType]:
    title = "Where the host waits for the device, in each step"
    if report.environment.device.kind == "cpu":
        title = "Where the host would wait for a device, in each step"
    if not report.syncs:
        return title, Text("Nowhere.")
    return title, Group(*map(_sync, report.syncs))


def _sync(site: SyncSite) -> RenderableType:
    cost = "not timed" if site.cost_s is None else duration(site.cost_s)
    figures = f"{site.per_step:g} x {site.kind}, {cost}"
    return _code_line(figures, site.place, site.code)


def _code_line(figures: str, place: Place | None, code: str) -> RenderableType:
    """Figures and a place, and the line of code below, cut where it is too long."""
    if place is None:
        return Text(printable(f"{figures}  {code}"))
    words = Text(printable(f"{figures}  {place}"), overflow="fold")
    text = Text(printable(code.strip()), style="dim", no_wrap=True, overflow="ellipsis")
    return Group(words, Padding(text, (0, 0, 0, 4)))


def _device(report: ProfileReport) -> Rows:
    on_cpu = report.environment.device.kind == "cpu"
    rows = [*_launches(report.launches, "operations" if on_cpu else "kernels and copies")]
    rows += _work(report.work)
    if report.ceilings is not None:
        rows += [
            ("at most", _ceilings(report.ceilings)),
            ("one launch", f"{duration(report.ceilings.launch_s)} at least"),
        ]
    return _without_repeats(rows)


def _launches(launches: Launches | None, what: str) -> Rows:
    if launches is None:
        return [("asked of it", "not measured")]
    busy = launches.device_s / launches.step_s if launches.step_s else 0.0
    slowest = sorted(launches.slowest.items(), key=lambda each: -each[1])
    computing = f"{duration(launches.device_s)} of {duration(launches.step_s)}, {100 * busy:.0f} %"
    return [
        ("asked of it", f"{launches.per_step:,.0f} {what} a step"),
        ("computing", computing),
        *(("slowest", f"{duration(seconds)}  {name}") for name, seconds in slowest[:SLOWEST]),
    ]


def _without_repeats(rows: Rows) -> Rows:
    """The name of a row once, above those that go with it."""
    names = [name for name, _ in rows]
    return [
        (name if names.index(name) == at else "", words) for at, (name, words) in enumerate(rows)
    ]


def _work(work: Work | None) -> Rows:
    if work is None:
        return [("arithmetic", "nothing was counted")]
    done = f"{rate(work.flops)}FLOP a step, {rate(work.flops_per_s)}FLOP/s in {work.computed_in}"
    return [
        ("arithmetic", f"{done}: {100 * work.share:.1f} % of the step at full speed"),
        ("moved", f"{rate(work.moved_bytes)}B a step beside it: {100 * work.moved_share:.1f} %"),
    ]


def _ceilings(ceilings: Ceilings) -> str:
    found = [f"{kind} {rate(most)}FLOP/s" for kind, most in ceilings.flops_per_s.items()]
    return ", ".join([*found, f"memory {rate(ceilings.bytes_per_s)}B/s"])


def _memory(memory: PeakMemory | None) -> tuple[str, RenderableType]:
    if memory is None:
        return "Who holds the memory at its peak", Text("Not measured.")
    parts = {name: float(getattr(memory, field)) for field, name in HOLDERS.items()}
    body: list[RenderableType] = [share_table(parts, size)]
    if memory.largest:
        body.append(Text("the lines that hold most of it:"))
    for each in memory.largest:
        body.append(Padding(_code_line(size(each.held_bytes), each.place, each.code), (0, 0, 0, 2)))
    return f"Who holds the memory at its peak: {size(memory.peak_bytes)} of tensors", Group(*body)


def _bounds(bounds: tuple[Bound, ...]) -> RenderableType:
    if not bounds:
        return Text("Not measured.")
    return _grid([(WITHOUT[each.without], _bound(each)) for each in bounds])


def _bound(bound: Bound) -> str:
    return f"{bound.ratio:.2f}x ({bound.low:.2f} to {bound.high:.2f}): {bound.how}"


def _findings(report: ProfileReport) -> RenderableType:
    if not report.findings:
        return Text("None.")
    return _grid([(each.code, _finding(each, report.next)) for each in report.findings])


def _finding(finding: Finding, told: tuple[str, ...]) -> str:
    """With its advice, unless that stands above."""
    where = f" ({finding.place})" if finding.place else ""
    advice = "" if finding.advice in told else f". {finding.advice}"
    return f"{finding.title}{where}{advice}"


def _ending(report: ProfileReport) -> str:
    took = f"Took {duration(report.elapsed_s)}."
    if report.trace is None:
        return f"{took} --trace FILE keeps a few steps for Perfetto or TensorBoard."
    return f"{took} The trace is {printable(report.trace)}; open it at https://ui.perfetto.dev"


def _grid(rows: Rows, gap: int = 2) -> Table:
    table = Table.grid(padding=(0, gap))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, words in rows:
        table.add_row(Text(printable(name)), Text(printable(words)))
    return table
