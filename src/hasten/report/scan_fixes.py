"""What was fixed, and what was not and why, for a terminal."""

from rich.console import Group, RenderableType
from rich.text import Text

from hasten.records.scan import AppliedFix, FixReport
from hasten.report.lines import unbroken
from hasten.report.scan import counted
from hasten.report.text import printable


def fix_card(report: FixReport) -> RenderableType:
    parts = [_fixed(each) for each in report.fixed]
    parts += [
        unbroken(f"{printable(path)} is left as it is: {why}.")
        for path, why in sorted(report.refused.items())
    ]
    return Group(*parts, Text(_headline(report), style="bold"), *map(Text, _left(report)))


def _fixed(each: AppliedFix) -> Text:
    return unbroken(f"{printable(each.path)}:{each.line} {each.code} {each.about}")


def _headline(report: FixReport) -> str:
    if not report.fixed:
        return "Nothing was fixed."
    files = len({each.path for each in report.fixed})
    return f"{counted(len(report.fixed), 'fix', 'fixes')} made in {counted(files, 'file')}."


def _left(report: FixReport) -> list[str]:
    """What was not fixed, and what to do about it."""
    said = []
    if report.unsafe:
        more = counted(report.unsafe, "more has a fix", "more have fixes")
        said.append(f"{more} to look at first: see --diff --unsafe, then --fix --unsafe.")
    if report.held_back:
        waits = counted(report.held_back, "fix would gain", "fixes would gain")
        said.append(f"{waits} nothing yet: another wait of the same loop has no fix.")
    if report.left:
        said.append(f"{counted(len(report.left), 'finding')} left.")
    return said
