"""``hasten bench``: two arms of a task against each other, or one against a kept figure."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from hasten.cli.options import as_json, seed_of_every_run
from hasten.cli.output import print_json, print_rich

FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("task")
@click.argument("a", required=False)
@click.argument("b", required=False)
@click.option("--save", type=FILE, help="Keep the speed of B beside A in FILE.")
@click.option("--against", type=FILE, help="Has it become slower since FILE was saved?")
@click.option("--inference", is_flag=True, help="Latency and rows/s of the model in evaluation.")
@seed_of_every_run
@as_json
@click.pass_context
def bench(context: click.Context, /, **chosen: Any) -> None:
    """Is B faster than A for TASK?

    A and B are naive, basic, advanced, ultra, a technique's name, a recipe.toml or another TASK.
    With --save A alone, or naive, is held against a fixed workload.

    Exit 0: no regression, or no verdict. 1: B is proven slower. 2: a fault.
    """
    from rich.console import Console

    from hasten.report.progress import Progress

    _refuse_bad_mixtures(
        chosen["b"], [chosen["save"], chosen["against"], chosen["inference"] or None]
    )
    wants_json = chosen.pop("as_json")
    with Progress(Console(stderr=True)) as progress:
        report, card, failed = _run(**chosen, tell=progress.tell)
    if wants_json:
        print_json(report)
    else:
        print_rich(card)
    context.exit(1 if failed else 0)


def _run(
    *,
    task: str,
    a: str | None,
    b: str | None,
    save: Path | None,
    against: Path | None,
    inference: bool,
    seed: int,
    tell: Callable[[str], None],
) -> tuple[object, Any, bool]:
    """The document, its card, and whether something is proven slower."""
    from hasten.report import bench as cards
    from hasten.report.inference import inference_card
    from hasten.tune import gate
    from hasten.tune.bench import bench as run_bench
    from hasten.tune.inference import bench_inference

    names = [name for name in (a, b) if name is not None]
    if save is not None:
        saved = gate.save(task, names, save, seed=seed, tell=tell)
        return saved, cards.saved_card(saved, str(save)), False
    if against is not None:
        held = gate.against(task, names, against, seed=seed, tell=tell)
        return held, cards.gate_card(held), held.regression
    if inference:
        answered = bench_inference(task, *names, seed=seed, tell=tell)
        return answered, inference_card(answered), answered.regression
    report = run_bench(task, *names, seed=seed, tell=tell)
    return report, cards.bench_card(report), report.regression


def _refuse_bad_mixtures(b: str | None, modes: list[object]) -> None:
    save, against, _ = modes
    if sum(each is not None for each in modes) > 1:
        raise click.UsageError("Give one of --save, --against and --inference.")
    if b is None and save is None and against is None:
        raise click.UsageError("Name the two arms A and B, such as: naive advanced.")
