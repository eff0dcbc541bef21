"""``hasten profile``: where the time and the memory of a step go."""

from pathlib import Path

import click

from hasten.cli.options import as_json, seed_of_every_run
from hasten.cli.output import print_json, print_rich

FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("task")
@click.option("--recipe", type=FILE, metavar="FILE", help="Of the training by a recipe.")
@click.option("--trace", type=FILE, metavar="FILE", help="Write a few steps, for Perfetto.")
@click.option("--data", is_flag=True, help="Of the loader alone, and of other ways of loading.")
@seed_of_every_run
@as_json
def profile(
    task: str, recipe: Path | None, trace: Path | None, data: bool, seed: int, as_json: bool
) -> None:
    """Where do the time and the memory of a step of TASK go?

    Says what a step is bound by, why, and what to do next; then phases, waits for the device,
    launches, arithmetic, memory, and what could be gained at most. With --data: how fast the
    loader is, what workers, threads or data in memory would give, and whether it is the disk.

    Exit 0: done. 2: a fault.
    """
    from rich.console import Console

    from hasten.errors import HastenError
    from hasten.report.data import data_card
    from hasten.report.profile import profile_card
    from hasten.report.progress import Progress
    from hasten.tune.profile import profile as run_profile
    from hasten.tune.profile_data import profile_data

    if data and trace is not None:
        raise HastenError("--data and --trace are two measurements.", fix="Leave one of them out.")
    with Progress(Console(stderr=True)) as progress:
        if data:
            of_data = profile_data(task, recipe=recipe, seed=seed, tell=progress.tell)
        else:
            report = run_profile(task, recipe=recipe, trace=trace, seed=seed, tell=progress.tell)
    if as_json:
        print_json(of_data if data else report)
    else:
        print_rich(data_card(of_data) if data else profile_card(report))
