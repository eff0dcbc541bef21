"""``hasten prove``: does a recipe hold, here and now?"""

from pathlib import Path

import click

from hasten.cli.options import Minutes, NamedPath, as_json, seed_of_every_run
from hasten.cli.output import print_json, print_rich


@click.command()
@click.argument("task")
@click.argument("recipe", type=NamedPath())
@seed_of_every_run
@click.option("--resume", is_flag=True, help="Also: a stopped training goes on to the bit.")
@click.option(
    "--minutes",
    type=Minutes(0, beyond=True),
    default=10.0,
    show_default=True,
    help="At most, for the trainings that judge another precision.",
)
@as_json
@click.pass_context
def prove(
    context: click.Context,
    task: str,
    recipe: Path,
    seed: int,
    resume: bool,
    minutes: float,
    as_json: bool,
) -> None:
    """Prove RECIPE for TASK anew: what it claims, and the same training.

    Exit 0: proven. 1: not proven, or refuted. 2: a fault.
    """
    from rich.console import Console

    from hasten.report.progress import Progress
    from hasten.report.verdicts import proof_card
    from hasten.tune.prove_recipe import prove as run_prove

    with Progress(Console(stderr=True)) as progress:
        report = run_prove(
            task,
            recipe,
            seed=seed,
            resume=resume,
            minutes=minutes,
            tell=progress.tell,
            note=progress.note,
            warn=progress.warn,
        )
    if as_json:
        print_json(report)
    else:
        print_rich(proof_card(report))
    context.exit(0 if report.verdict == "proven" else 1)
