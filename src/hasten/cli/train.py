"""``hasten train``: a whole training, with checkpoints."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

import click

from hasten.cli.afterwards import show, tell_what_is_left
from hasten.cli.options import SEED, NamedPath, as_json
from hasten.cli.output import say
from hasten.errors import HastenError

if TYPE_CHECKING:
    from hasten.config import PerformanceConfig
    from hasten.records.plan import Plan
    from hasten.records.training import RecipeClaim, TrainingSummary
    from hasten.train.wishes import Wishes

LEVELS = click.Choice(["basic", "advanced", "ultra"])
PRECISIONS = click.Choice(["bf16", "fp16", "none"])
PATH = NamedPath()
EXIT_STOPPED = 1
EXIT_BY_SIGNAL = 128
"""And the signal's number, as shells have it."""


class Options(TypedDict):
    recipe: Path | None
    level: str | None
    mixed_precision: Literal["bf16", "fp16", "none"] | None
    compile_model: bool
    gradient_checkpointing: bool
    epochs: int | None
    steps: int | None
    checkpoint_dir: Path | None
    checkpoint_every: int | None
    resume: bool
    deterministic: bool
    log_every: int
    evaluate_every: str
    seed: int | None
    as_json: bool


@click.command()
@click.argument("task")
@click.option("--recipe", type=PATH, metavar="FILE", help="Apply what hasten tune proved.")
@click.option("--level", type=LEVELS, metavar="NAME", help="Or a level: basic, advanced or ultra.")
@click.option(
    "--mixed-precision",
    type=PRECISIONS,
    metavar="TYPE",
    help="Compute in bf16 or fp16; none: in neither.",
)
@click.option("--compile-model", is_flag=True, help="Compile the model.")
@click.option("--gradient-checkpointing", is_flag=True, help="Recompute activations: less memory.")
@click.option("--epochs", type=int, metavar="N", help="Train until N epochs are done; else 1.")
@click.option("--steps", type=int, metavar="N", help="Or until N optimizer steps are done.")
@click.option(
    "--checkpoint-dir", type=PATH, metavar="DIR", help="Keep checkpoints and a log in DIR."
)
@click.option(
    "--checkpoint-every",
    type=int,
    metavar="N",
    help="Steps between two checkpoints; else ten minutes.",
)
@click.option("--resume", is_flag=True, help="Go on from the last checkpoint in DIR.")
@click.option("--deterministic", is_flag=True, help="Only algorithms that repeat to the bit.")
@click.option(
    "--log-every",
    type=int,
    metavar="N",
    default=50,
    show_default=True,
    help="Steps between two reports.",
)
@click.option(
    "--evaluate-every",
    metavar="N[UNIT]",
    default="1epoch",
    show_default=True,
    help="Steps (500) or epochs (2epochs).",
)
@click.option(
    "--seed", type=SEED, metavar="N", help="Seed of the run; else 0, or the checkpoint's."
)
@as_json
@click.pass_context
def train(context: click.Context, /, task: str, **options: Unpack[Options]) -> None:
    """Train TASK by a recipe, at a level, or as it is.

    Exit 0: done. 1: ended early. 2: a fault. 130, 143: stopped by a signal.
    """
    _refuse_conflicts(options)
    from hasten.task.names import refuse_unknown

    refuse_unknown(task)  # before torch is loaded
    from hasten.report.training import TrainingConsole, TrainingDisplay
    from hasten.train.every import Every

    evaluate_every = Every.parse(options["evaluate_every"])
    plan, claim = _decide(task, options)
    from hasten.train.fit import train as run_training
    from hasten.train.signals import StopRequest
    from hasten.train.wanted import Wanted

    wanted = Wanted(
        task=task,
        plan=plan,
        epochs=options["epochs"],
        steps=options["steps"],
        seed=options["seed"],
        checkpoint_dir=options["checkpoint_dir"],
        checkpoint_every=options["checkpoint_every"],
        resume=options["resume"],
        evaluate_every=evaluate_every,
        log_every=options["log_every"],
        deterministic=options["deterministic"],
        claim=claim,
    )
    display = TrainingDisplay(TrainingConsole())
    stop = StopRequest()
    for_people = sys.stderr if options["as_json"] else sys.stdout
    try:
        with (
            _blaming(options["recipe"], plan),
            redirect_stdout(for_people),
            display,
            stop,
        ):
            summary = run_training(wanted, stop, [display])
    except KeyboardInterrupt:
        if not stop.nothing_to_lose:
            tell_what_is_left(context)
        raise
    show(context, summary, display.start, evaluate_every)
    context.exit(_exit_code(summary))


def _refuse_conflicts(options: Options) -> None:
    """Before anything is imported, built or written."""
    if options["recipe"] is not None and options["level"] is not None:
        raise _together("--recipe", "--level", "A recipe has its own plan")
    if options["epochs"] is not None and options["steps"] is not None:
        raise _together("--epochs", "--steps", "Each is where training ends")
    if options["checkpoint_dir"] is None:
        if options["resume"]:
            raise _without_folder("--resume")
        if options["checkpoint_every"] is not None:
            raise _without_folder("--checkpoint-every")
    counts = {
        "--epochs": options["epochs"],
        "--steps": options["steps"],
        "--checkpoint-every": options["checkpoint_every"],
        "--log-every": options["log_every"],
    }
    for flag, count in counts.items():
        if count is not None and count < 1:
            raise HastenError(f"{flag} {count} is not possible.", fix="Use 1 or more.")


def _together(a: str, b: str, why: str) -> HastenError:
    return HastenError(f"{a} and {b} cannot be used together.", fix=f"{why}: leave one out.")


def _without_folder(flag: str) -> HastenError:
    return HastenError(
        f"{flag} is given without --checkpoint-dir.",
        fix="Name the folder of the checkpoints with --checkpoint-dir DIR.",
    )


def _decide(task: str, options: Options) -> "tuple[Plan | PerformanceConfig, RecipeClaim | None]":
    from hasten.config import OptimizationLevel
    from hasten.records.plan import NAIVE
    from hasten.train.wishes import Wishes

    wishes = Wishes(
        mixed_precision=options["mixed_precision"],
        compile_model=options["compile_model"],
        gradient_checkpointing=options["gradient_checkpointing"],
    )
    if options["recipe"] is not None:
        return _from_recipe(task, options["recipe"], wishes)
    if options["level"] is not None:
        return wishes.at(OptimizationLevel(options["level"])), None
    return wishes.over(NAIVE), None


def _from_recipe(task: str, path: Path, wishes: "Wishes") -> "tuple[Plan, RecipeClaim | None]":
    """What the recipe claims goes along only where its plan is the one that was proven."""
    from hasten.host.environment import read_environment
    from hasten.records.recipe import other_machine, read_recipe
    from hasten.records.training import RecipeClaim
    from hasten.techniques.registry import refuse_bad_parts

    recipe = read_recipe(path)
    refuse_bad_parts(recipe.as_plan(), where=str(path))
    differences = read_environment().differences(recipe.environment)
    if differences:
        fix = f"Tune again here: hasten tune {task}"
        raise other_machine(str(path), differences, fix=fix)
    if recipe.changes_training is not None:
        _note(f"{path} changes the training: {recipe.changes_training.changes}")
    if recipe.task != task:
        _note(f"{path} was proven for {recipe.task}, so what it claims is not compared")
        return wishes.over(recipe.as_plan()), None
    plan = wishes.over(recipe.as_plan())
    if recipe.is_edited():
        _note(
            f"the plan of {path} was edited since it was proven, so what it claims is not compared;"
            f" hasten prove {task} {path} tells what it is worth"
        )
        return plan, None
    if plan != recipe.as_plan():
        _note(f"the flags change the plan of {path}, so what it claims is not compared")
        return plan, None
    speed, changed = recipe.speed, recipe.changes_training
    if speed is None or speed.verdict != "proven" or changed is not None:
        return plan, None  # it claims none; or that of the training as it was
    return plan, RecipeClaim(path=str(path), ratio=speed.ratio, rows_per_s=speed.rows_per_s)


@contextmanager
def _blaming(recipe: Path | None, plan: "Plan | PerformanceConfig") -> Iterator[None]:
    """A technique that the task did not bring along either is a fault of the recipe."""
    from hasten.records.plan import Plan
    from hasten.techniques.registry import decode

    try:
        yield
    except HastenError:
        if recipe is not None and isinstance(plan, Plan):
            decode(plan, where=str(recipe))
        raise


def _note(words: str) -> None:
    from hasten.report.text import printable

    say(f"note: {printable(words)}")


def _exit_code(summary: "TrainingSummary") -> int:
    if summary.outcome == "done":
        return 0
    return EXIT_STOPPED if summary.signal is None else EXIT_BY_SIGNAL + summary.signal
