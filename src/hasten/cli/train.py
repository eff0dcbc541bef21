"""``hasten train``: a whole training, with checkpoints."""

import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

import click
from click.core import ParameterSource

from hasten.cli.options import as_json, print_json, print_rich
from hasten.errors import HastenError

if TYPE_CHECKING:
    from hasten.config import PerformanceConfig
    from hasten.records.plan import Plan
    from hasten.records.training import RecipeClaim, TrainingSummary
    from hasten.train.wishes import Wishes

LEVELS = click.Choice(["basic", "advanced", "ultra"])
PRECISIONS = click.Choice(["bf16", "fp16", "none"])
FOLDER = click.Path(path_type=Path)
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
@click.option("--recipe", type=FOLDER, metavar="FILE", help="Apply what hasten tune proved.")
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
    "--checkpoint-dir", type=FOLDER, metavar="DIR", help="Keep checkpoints and a log in DIR."
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
@click.option("--seed", type=int, metavar="N", help="Seed of the run; else 0, or the checkpoint's.")
@as_json
@click.pass_context
def train(context: click.Context, /, task: str, **options: Unpack[Options]) -> None:
    """Train TASK by a recipe, at a level, or as it is.

    Exit 0: done. 1: ended early. 2: a fault. 130, 143: stopped by a signal.
    """
    _refuse_conflicts(options)
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
    for_people = sys.stderr if options["as_json"] else sys.stdout
    with (
        redirect_stdout(for_people),
        TrainingDisplay(TrainingConsole()) as display,
        StopRequest() as stop,
    ):
        summary = run_training(wanted, stop, [display])
    _show(summary, _resuming(context), as_json=options["as_json"])
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
    """What the recipe claims goes along only where its plan was not changed."""
    from hasten.host.environment import read_environment
    from hasten.records.recipe import other_machine, read_recipe
    from hasten.records.training import RecipeClaim

    recipe = read_recipe(path)
    differences = read_environment().differences(recipe.environment)
    if differences:
        fix = f"Tune again here: hasten tune {task}"
        raise other_machine(str(path), differences, fix=fix)
    if recipe.task != task:
        _note(f"{path} was proven for {recipe.task}, so what it claims is not compared")
        return wishes.over(recipe.as_plan()), None
    plan = wishes.over(recipe.as_plan())
    if plan != recipe.as_plan():
        _note(f"the flags change the plan of {path}, so what it claims is not compared")
        return plan, None
    speed = recipe.speed
    return plan, RecipeClaim(path=str(path), ratio=speed.ratio, rows_per_s=speed.rows_per_s)


def _note(words: str) -> None:
    from hasten.report.text import printable

    click.echo(f"note: {printable(words)}", err=True)


def _resuming(context: click.Context) -> str:
    """The command line that goes on with this training: the same one, with ``--resume``."""
    words = [context.command_path]
    for parameter in context.command.params:
        value = context.params[parameter.name or ""]
        if context.get_parameter_source(parameter.name or "") is not ParameterSource.COMMANDLINE:
            continue
        if isinstance(parameter, click.Argument):
            words.append(shlex.quote(value))
        elif parameter.name not in ("resume", "as_json"):
            words += [parameter.opts[0], *([] if value is True else [shlex.quote(str(value))])]
    return " ".join([*words, "--resume"])


def _show(summary: "TrainingSummary", resume: str, *, as_json: bool) -> None:
    if as_json:
        print_json(summary)
        return
    from hasten.report.summary import summary_card

    try:
        print_rich(summary_card(summary, resume=resume))
    except (Exception, SystemExit) as error:  # noqa: BLE001  # what was trained is not lost by it
        _show_plainly(summary, error)


def _show_plainly(summary: "TrainingSummary", error: BaseException) -> None:
    """Without anything that could fail as the card did."""
    click.echo(f"{summary.outcome} at step {summary.step}, loss {summary.loss}")
    click.echo(f"why: {summary.why!a}")
    click.echo(f"checkpoint: {summary.checkpoint!a}")
    name = type(error).__name__
    click.echo(f"warning: the card could not be shown ({name}: {str(error)!a})", err=True)


def _exit_code(summary: "TrainingSummary") -> int:
    if summary.outcome == "done":
        return 0
    return EXIT_STOPPED if summary.signal is None else EXIT_BY_SIGNAL + summary.signal
