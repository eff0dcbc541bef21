"""What was fixed, and what was not and why, for a terminal."""

from rich.console import Group, RenderableType
from rich.text import Text

from hasten.records.scan import AppliedFix, FixOutcome, FixReport, FixTrial
from hasten.report.bench import beside_it
from hasten.report.lines import unbroken
from hasten.report.scan import counted
from hasten.report.text import printable
from hasten.report.verdicts import checks_of, figures_of

STYLES: dict[FixOutcome, str] = {"kept": "bold green", "not_the_same": "bold red"}
YELLOW = "bold yellow"
"""Of all others."""


def fix_card(report: FixReport) -> RenderableType:
    parts: list[RenderableType] = []
    if report.proof is None:
        parts += [_fixed(each) for each in report.fixed]
    else:
        parts += [trial_card(each) for each in report.proof.trials]
    parts += [
        unbroken(f"{printable(path)} is left as it is: {why}.")
        for path, why in sorted(report.refused.items())
    ]
    return Group(*parts, Text(_headline(report), style="bold"), *map(Text, left_in_words(report)))


def trial_card(trial: FixTrial) -> RenderableType:
    """Its outcome and why, what was fixed, the figures, what was compared."""
    word = Text(trial.outcome.replace("_", " ").upper(), style=STYLES.get(trial.outcome, YELLOW))
    together = ", all together" if trial.together else ""
    said = f"{together}  {printable(trial.why)}"
    lines: list[RenderableType] = [word.append(said, style="not bold default")]
    lines += [Text("  ").append_text(_fixed(each)) for each in trial.fixes]
    if trial.speed is not None:
        lines += [figures_of(trial.speed), *beside_it(trial.speed)]
    if trial.numerics is not None:
        lines += checks_of(trial.numerics)
    return Group(*lines)


def trial_line(trial: FixTrial) -> str:
    places = ", ".join(f"{each.path}:{each.line} {each.code}" for each in trial.fixes)
    return printable(f"{trial.outcome.replace('_', ' ')}: {places}: {trial.why}")


def _fixed(each: AppliedFix) -> Text:
    return unbroken(f"{printable(each.path)}:{each.line} {each.code} {each.about}")


def _headline(report: FixReport) -> str:
    if not report.fixed:
        untried = report.proof is not None and not report.proof.trials
        return "There is nothing to fix." if untried else "Nothing was fixed."
    files = len({each.path for each in report.fixed})
    return f"{counted(len(report.fixed), 'fix', 'fixes')} made in {counted(files, 'file')}."


def left_in_words(report: FixReport) -> list[str]:
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
