"""The card of a loader: how fast it is alone, its share of a step, other ways, the disk."""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hasten.records.loading import DataReport, DiskUse, LoaderShare, Rate, Refused
from hasten.report.text import duration, printable, size

VERDICTS = {
    "disk": "THE DISK",
    "not_disk": "not the disk",
    "no_files": "no files",
    "unknown": "not known",
}


def data_card(report: DataReport) -> RenderableType:
    sections: list[RenderableType] = [_head(report)]
    sections += _section("Next", _numbered(report.next))
    sections += _section("What each way of loading gives, alone", _ways(report))
    sections += _section("Not possible here", _refused(report.refused))
    sections += _section("Is it the disk?", _disk(report.disk))
    if report.notes:
        sections += _section("Notes", Text("\n".join(map(printable, report.notes))))
    return Group(*sections, Text(f"\nTook {duration(report.elapsed_s)}."))


def _head(report: DataReport) -> RenderableType:
    words = Text(printable(report.task), style="bold")
    words.append(f", {printable(str(report.plan))}" if report.plan.parts else "")
    speed = "not measured"
    if report.rows_per_s is not None and report.batch_s is not None:
        speed = f"{report.rows_per_s:,.0f} rows/s, {duration(report.batch_s)} a batch"
    words.append(f"\nthe loader alone: {speed}", style="not bold")
    words.append(f"\nof a step: {_share(report.share)}", style="not bold")
    head = Table.grid(padding=(0, 2))
    head.add_row(Text("DATA", style="bold yellow"), words)
    return head


def _share(share: LoaderShare | None) -> str:
    if share is None:
        return "not measured"
    low, high = (f"{100 * max(each, 0.0):.1f}" for each in (share.low, share.high))
    return f"{100 * max(share.share, 0.0):.1f} % ({low} to {high} %), {share.how}"


def _section(title: str, body: RenderableType) -> list[RenderableType]:
    return [Text(f"\n{title}", style="bold"), Padding(body, (0, 0, 0, 2))]


def _numbered(sentences: tuple[str, ...]) -> Table:
    return _grid([(f"{at}.", sentence) for at, sentence in enumerate(sentences, 1)])


def _ways(report: DataReport) -> RenderableType:
    if not report.rates:
        return Text("Nothing could be measured.")
    own = next((each for each in report.rates if each.mode == "own"), None)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for each in report.rates:
        table.add_row(
            Text("as it is" if each is own else each.mode),
            Text(f"{each.rows_per_s:,.0f} rows/s"),
            Text(_times(each, own)),
            Text(printable(", ".join(filter(None, [each.how, _spread(each)])))),
        )
    return table


def _spread(rate: Rate) -> str:
    return f"+- {100 * rate.spread:.0f} %" if rate.turns > 1 else "one turn"


def _times(rate: Rate, own: Rate | None) -> str:
    if own is None or rate is own or not own.rows_per_s:
        return ""
    return f"{rate.rows_per_s / own.rows_per_s:.2f}x"


def _refused(refused: tuple[Refused, ...]) -> RenderableType:
    if not refused:
        return Text("Nothing was refused.")
    return _grid([(each.mode, each.why) for each in refused])


def _disk(disk: DiskUse | None) -> RenderableType:
    if disk is None:
        return Text("Not measured.")
    rows = [(VERDICTS[disk.verdict], disk.why)]
    if disk.asked_bytes is not None and disk.verdict != "no_files":
        rows += [
            ("read", f"{size(disk.asked_bytes)} for {disk.batches} batches of {disk.files} files"),
            ("from the disk", f"{size(disk.cold_disk_bytes or 0)} in {duration(disk.cold_s)}"),
            ("once more", f"{size(disk.warm_disk_bytes or 0)} in {duration(disk.warm_s)}"),
        ]
    if disk.waited_s is not None:
        rows.append(("waited for it", duration(disk.waited_s)))
    return _grid(rows)


def _grid(rows: list[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, words in rows:
        table.add_row(Text(printable(name)), Text(printable(words)))
    return table
