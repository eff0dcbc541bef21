"""``hasten scan``: what in some source code costs time or memory."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hasten.cli.options import NamedPath, as_json
from hasten.cli.output import print_json, print_rich, print_text, say
from hasten.errors import HastenError

if TYPE_CHECKING:
    from hasten.records.scan import FixReport, ScanReport
    from hasten.scan.gather import Means
    from hasten.scan.settings import Project

FORMATS = ("text", "json", "sarif", "github", "markdown")
ENOUGH_FILES = 200
"""That are to be looked at where progress is shown."""
EVERY = 20
"""Files it is told anew."""


@click.command()
@click.argument("paths", nargs=-1, type=NamedPath())
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="How to tell it.",
)
@click.option("--select", metavar="CODES", help="Look only for these, such as HST2,HST101.")
@click.option("--ignore", metavar="CODES", help="Do not look for these.")
@click.option("--fix", is_flag=True, help="Make the fixes that change nothing else.")
@click.option("--unsafe", is_flag=True, help="With --fix or --diff: also those to look at first.")
@click.option("--diff", is_flag=True, help="Show what --fix would change, and write nothing.")
@click.option(
    "--prove", metavar="TASK", help="Only fixes that train TASK alike, and faster; this runs it."
)
@as_json
@click.pass_context
def scan(
    context: click.Context,
    paths: tuple[Path, ...],
    format_: str,
    select: str | None,
    ignore: str | None,
    fix: bool,
    unsafe: bool,
    diff: bool,
    prove: str | None,
    as_json: bool,
) -> None:
    """Name what in the source code under PATHS costs time or memory.

    Nothing of it is run or imported, but by --prove. The default is the folder you are in; settings
    are those of [tool.hasten.scan] in its pyproject.toml. `hasten explain HST201` tells of a rule.

    Exit 0: nothing found, or left to fix. 1: something is. 2: a fault.
    """
    _refuse_missing_folder()
    asked = paths or (Path(),)
    told = "json" if as_json else format_
    project = _project(asked, select, ignore)
    if fix or diff:
        context.exit(_fix(asked, project, told, prove, unsafe=unsafe, diff=diff))
    for name, given in (("--unsafe", unsafe), ("--prove", prove is not None)):
        if given:
            raise HastenError(f"{name} alone does nothing.", fix="Give --fix or --diff with it.")
    report = _scan(asked, project)
    _print(report, told)
    context.exit(1 if report.findings else 0)


def _refuse_missing_folder() -> None:
    """Paths are told from the folder one is in, which may have been deleted meanwhile."""
    try:
        Path.cwd()
    except OSError as error:
        raise HastenError(
            f"The folder that you are in cannot be looked up: {error.strerror or error}.",
            fix="Go to one that is there, such as with `cd`.",
        ) from error


def _fix(
    paths: Sequence[Path],
    project: "Project",
    told: str,
    prove: str | None,
    *,
    unsafe: bool,
    diff: bool,
) -> int:
    """The exit code. Where only a difference goes to stdout, stderr has what is left."""
    from hasten.report.scan_fixes import fix_card, left_in_words
    from hasten.scan.fix import fix

    if told not in ("text", "json"):
        raise HastenError(
            f"Fixes are not told as {told}.", fix="Leave out --format, or give text or json."
        )
    if prove is not None:
        report = _prove(paths, project, prove, unsafe=unsafe, diff=diff)
    else:
        with _means(project) as means:
            report = fix(paths, project, means, unsafe=unsafe, write=not diff)
    if told == "json":
        print_json(report)
    elif diff:
        print_text("".join(report.differences.values()))
        for line in left_in_words(report):
            say(line)
    else:
        print_rich(fix_card(report))
    return 1 if report.left or (diff and report.differences) else 0


def _prove(
    paths: Sequence[Path], project: "Project", task: str, *, unsafe: bool, diff: bool
) -> "FixReport":
    """The fixes that a task proves. Where only a difference goes to stdout, stderr has why."""
    from rich.console import Console

    from hasten.report.progress import Progress
    from hasten.report.scan_fixes import trial_line
    from hasten.scan.fix import survey_tree
    from hasten.scan.proposal import Proposal
    from hasten.task.names import refuse_unknown
    from hasten.tune.prove_fixes import prove_fixes

    refuse_unknown(task)
    with _means(project) as means:
        proposal = Proposal(survey_tree(paths, project, means), paths, unsafe=unsafe)
    with Progress(Console(stderr=True)) as progress:
        return prove_fixes(
            task,
            proposal,
            write=not diff,
            tell=progress.tell,
            note=lambda trial: progress.note(trial_line(trial)) if diff else None,
        )


def _project(paths: Sequence[Path], select: str | None, ignore: str | None) -> "Project":
    """The settings of the project, with what the command line says instead or besides."""
    import msgspec

    from hasten.scan.choice import codes_of
    from hasten.scan.settings import Project, project_of

    found = project_of(paths)
    settings = found.settings
    wanted, unwanted = _codes(select), _codes(ignore)
    codes_of(wanted, where="--select")
    codes_of(unwanted, where="--ignore")
    changed = msgspec.structs.replace(
        settings, select=wanted or settings.select, ignore=(*settings.ignore, *unwanted)
    )
    return Project(found.folder, changed)


def _codes(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in (text or "").split(","))))


def _scan(paths: Sequence[Path], project: "Project") -> "ScanReport":
    from hasten.scan.scan import scan as look

    with _means(project) as means:
        return look(paths, project, means)


@contextmanager
def _means(project: "Project") -> Iterator["Means"]:
    """A line on a terminal says how far it is, where there is much to look at."""
    from rich.console import Console

    from hasten.host.cores import cores_allowed
    from hasten.report.progress import Progress
    from hasten.scan.cache import project_cache, version_of_rules
    from hasten.scan.gather import Means

    console = Console(stderr=True)
    with ExitStack() as shown:
        progress: list[Progress] = []

        def tell(done: int, of: int) -> None:
            if of >= ENOUGH_FILES and console.is_interactive and done % EVERY == 0:
                if not progress:
                    progress.append(shown.enter_context(Progress(console)))
                progress[0].tell(f"{done:,} of {of:,} files")

        cache = project_cache(project.folder, version_of_rules())
        yield Means(cache, int(cores_allowed()), tell)


def _print(report: "ScanReport", format_: str) -> None:
    from hasten.report.scan import scan_card
    from hasten.report.scan_github import scan_annotations
    from hasten.report.scan_markdown import scan_markdown
    from hasten.report.scan_sarif import scan_sarif
    from hasten.scan.sources import source
    from hasten.scan.words import rules_in_words

    rules = {each.code: each for each in rules_in_words()}
    if format_ == "json":
        print_json(report)
    elif format_ == "sarif":
        print_json(scan_sarif(report, rules))
    elif format_ == "github":
        print_text(scan_annotations(report))
    elif format_ == "markdown":
        print_text(scan_markdown(report, rules, source))
    else:
        print_rich(scan_card(report, source))
