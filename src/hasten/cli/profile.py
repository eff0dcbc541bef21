"""``hasten profile``: where the time and the memory of a step go."""

from pathlib import Path

import click

from hasten.cli.options import as_json
from hasten.cli.output import print_json, print_rich

FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("task")
@click.option("--recipe", type=FILE, metavar="FILE", help="Of the training by a recipe.")
@click.option("--trace", type=FILE, metavar="FILE", help="Write a few steps, for Perfetto.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of every run.")
@as_json
def profile(task: str, recipe: Path | None, trace: Path | None, seed: int, as_json: bool) -> None:
    """Where do the time and the memory of a step of TASK go?

    Says what a step is bound by, why, and what to do next; then phases, waits for the device,
    launches, arithmetic, memory, and what could be gained at most.

    Exit 0: done. 2: a fault.
    """
    from rich.console import Console

    from hasten.report.profile import profile_card
    from hasten.report.progress import Progress
    from hasten.tune.profile import profile as run_profile

    with Progress(Console(stderr=True)) as progress:
        report = run_profile(task, recipe=recipe, trace=trace, seed=seed, tell=progress.tell)
    if as_json:
        print_json(report)
    else:
        print_rich(profile_card(report))
