"""``hasten tune``: the main job."""

from pathlib import Path
from typing import Literal

import click

from hasten.cli.options import Minutes, NamedPath, as_json, seed_of_every_run
from hasten.cli.output import print_json, print_rich


@click.command()
@click.argument("task")
@click.option(
    "--out",
    type=NamedPath(),
    default=Path("hasten-out"),
    show_default=True,
    help="Folder for recipe.toml, evidence.json, report.html and the journal.",
)
@click.option(
    "--minutes",
    type=Minutes(0.1),
    default=5.0,
    show_default=True,
    help="Time for the search; confirming and proving come on top.",
)
@click.option(
    "--goal",
    type=click.Choice(["speed", "memory"]),
    default="speed",
    show_default=True,
    help="What is to become better.",
)
@click.option(
    "--memory", metavar="SIZE", help="The most that a step's tensors may take, such as 12GB."
)
@click.option(
    "--allow",
    type=click.Choice(["batch-size"]),
    multiple=True,
    help="What may change in the training, if it is sooner at the same target.",
)
@seed_of_every_run
@as_json
@click.pass_context
def tune(
    context: click.Context,
    task: str,
    out: Path,
    minutes: float,
    goal: Literal["speed", "memory"],
    memory: str | None,
    allow: tuple[Literal["batch-size"], ...],
    seed: int,
    as_json: bool,
) -> None:
    """Measure TASK, find what makes it faster, prove it, write a recipe.

    Exit 0: a proven recipe, or nothing to gain. 1: a claim could not be proven. 2: a fault.
    """
    from rich.console import Console

    from hasten.flow import tune as run_tune
    from hasten.host.amounts import parse_some_bytes
    from hasten.records.tuning import Aim
    from hasten.report.card import tune_card
    from hasten.report.progress import Progress
    from hasten.tune.files import RECIPE
    from hasten.tune.journal import JOURNAL, has_learnt

    aim = Aim(goal=goal, memory_bytes=None if memory is None else parse_some_bytes(memory))
    try:
        with Progress(Console(stderr=True)) as progress:
            evidence = run_tune(
                task,
                out=out,
                minutes=minutes,
                seed=seed,
                aim=aim,
                allow=allow,
                tell=progress.show,
                note=progress.note,
                warn=progress.warn,
            )
    except (KeyboardInterrupt, SystemExit):
        if has_learnt(out):
            where = f"What was learnt so far is in {out / JOURNAL}"
            click.echo(f"{where}: the same command goes on from there.", err=True)
        elif (out / RECIPE).exists():
            click.echo(f"{out / RECIPE} is kept.", err=True)
        else:
            click.echo("Nothing was learnt yet: the same command begins anew.", err=True)
        raise
    if as_json:
        print_json(evidence)
    else:
        print_rich(tune_card(evidence, str(out)))
    context.exit(1 if evidence.outcome == "unproven" else 0)
