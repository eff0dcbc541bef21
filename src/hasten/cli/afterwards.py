"""What is left to say when a training has ended: the card, and the command that goes on."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from hasten.cli.output import print_json, print_rich, say
from hasten.errors import HastenError

if TYPE_CHECKING:
    from hasten.records.checkpoint import Position
    from hasten.records.training import TrainingSummary
    from hasten.train.every import Every


def show(
    context: click.Context, summary: "TrainingSummary", start: "Position", evaluate_every: "Every"
) -> None:
    """What was trained is safe: a card that cannot be shown does not change how it ended."""
    from hasten.report.summary import summary_card

    try:
        if context.params["as_json"]:
            print_json(summary)
        else:
            missing = _without_evaluation(summary, start, evaluate_every)
            go_on = going_on(context, summary)
            print_rich(summary_card(summary, go_on=go_on, no_evaluation=missing))
    except HastenError as error:
        _show_plainly(summary, error.what)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # what was trained is not lost by it
        _show_plainly(summary, f"The card could not be shown: {type(error).__name__}: {error}")


def tell_what_is_left(context: click.Context) -> None:
    """After a Ctrl-C that did not wait for the training to be saved."""
    folder: Path | None = context.params["checkpoint_dir"]
    if folder is None:
        say("Nothing was saved: there is no --checkpoint-dir.")
        return
    from hasten.checkpoint.folders import name_of
    from hasten.checkpoint.store import Store
    from hasten.report.text import printable

    steps = Store(folder).steps()
    if not steps:
        say(f"Nothing was saved: there is no checkpoint in {printable(str(folder))} yet.")
        return
    path = printable(str(folder / name_of(steps[-1])))
    say(f"What was trained after the last checkpoint, {path}, is not saved. Go on from there:")
    say(printable(_again(context)))


def going_on(context: click.Context, summary: "TrainingSummary") -> str:
    """The command that goes on: to where a stopped one was to end, twice as far a done one."""
    if summary.outcome == "stopped":
        return _again(context)
    unit, done = ("steps", summary.step) if context.params["steps"] else ("epochs", summary.epoch)
    asked = context.params[unit] or 1
    return _again(context, **{unit: 2 * max(done, asked)})


def _again(context: click.Context, **instead: Any) -> str:
    """This command line with ``--resume``, and other values of some options."""
    words = [context.command_path]
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in ("resume", "as_json"):
            continue
        if name in instead or context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            words += _spelt(parameter, instead.get(name, context.params[name]))
    return " ".join([*words, "--resume"])


def _spelt(parameter: click.Parameter, value: object) -> list[str]:
    if isinstance(parameter, click.Argument):
        return [shlex.quote(str(value))]
    return [parameter.opts[0], *([] if value is True else [shlex.quote(str(value))])]


def _without_evaluation(
    summary: "TrainingSummary", start: "Position", evaluate_every: "Every"
) -> str:
    """Why there are no figures of one. One that was due was not done, or a signal cut it short."""
    count = evaluate_every.count
    if evaluate_every.unit == "step":
        was_due = summary.step // count > start.step // count
    else:
        was_due = summary.epoch // count > start.epoch // count
    if was_due and summary.signal is None:
        return "none; the task has no evaluation data"
    return f"none; it comes every {evaluate_every}, if the task has evaluation data"


def _show_plainly(summary: "TrainingSummary", problem: str) -> None:
    """Without anything that could fail as the card did."""
    from hasten.report.text import printable

    ended = f"{summary.outcome} at step {summary.step}, loss {summary.loss}: {summary.why}"
    say(f"warning: {printable(problem)}")
    say(f"         {printable(ended)}")
    say(f"         checkpoint: {printable(summary.checkpoint or 'none')}")
