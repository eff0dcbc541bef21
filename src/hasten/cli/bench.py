"""``hasten bench``: two plans of a task against each other."""

import click

from hasten.cli.options import as_json
from hasten.cli.output import print_json, print_rich


@click.command()
@click.argument("task")
@click.argument("a")
@click.argument("b")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of every run.")
@as_json
@click.pass_context
def bench(context: click.Context, task: str, a: str, b: str, seed: int, as_json: bool) -> None:
    """Is B faster than A for TASK?

    A and B are naive, basic, advanced, ultra, a technique's name or a recipe.toml.

    Exit 0: no regression. 1: B is proven slower. 2: a fault.
    """
    from rich.console import Console

    from hasten.report.progress import Progress
    from hasten.report.verdicts import bench_card
    from hasten.tune.bench import bench as run_bench

    with Progress(Console(stderr=True)) as progress:
        report = run_bench(task, a, b, seed=seed, tell=progress.tell)
    if as_json:
        print_json(report)
    else:
        print_rich(bench_card(report))
    context.exit(1 if report.regression else 0)
