"""The ``hasten`` command: its group, its errors, its signals, its exit codes.

Torch is imported by a command that needs it, never to print help.
"""

import os
import signal
import sys
from types import FrameType, TracebackType

import click
import msgspec

from hasten import __version__
from hasten.cli.bench import bench
from hasten.cli.env import env
from hasten.cli.explain import explain
from hasten.cli.profile import profile
from hasten.cli.prove import prove
from hasten.cli.train import train
from hasten.cli.tune import tune
from hasten.errors import HastenError

EXIT_FAULT = 2
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hasten")
def hasten() -> None:
    """Makes PyTorch training faster and smaller, and proves it.

    A TASK is gallery:NAME, file.py:function or package.module:function; the function takes no
    arguments and returns a hasten.Task.

    Exit codes: 0 done, 1 a claim did not hold, 2 a fault, 130 interrupted, 143 terminated.
    """


for command in (tune, train, profile, bench, prove, explain, env):
    hasten.add_command(command)


def main() -> None:
    signal.signal(signal.SIGTERM, _terminate)
    sys.excepthook = _crash
    try:
        code = hasten.main(standalone_mode=False)
    except HastenError as error:
        code = _report(error)
    except click.ClickException as error:
        error.show()
        code = EXIT_FAULT
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        code = EXIT_INTERRUPTED
    sys.exit(code or 0)


def _report(error: HastenError) -> int:
    if "--json" in sys.argv:  # programs read stdout; people the lines below
        document = {"error": error.what, "fix": error.fix, "detail": error.detail}
        click.echo(msgspec.json.encode(document))
    if error.detail:
        click.echo(error.detail.rstrip() + "\n", err=True)
    click.echo(f"error: {error.what}", err=True)
    if error.fix:
        click.echo(f"       {error.fix}", err=True)
    return EXIT_FAULT


def _crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A fault of ours: Python would exit with 1, which here means that a claim did not hold."""
    sys.__excepthook__(kind, error, trace)
    click.echo("error: this is a fault of Hasten; please report it with the lines above", err=True)
    sys.stdout.flush()
    os._exit(EXIT_FAULT)  # everything has been unwound, so that no worker is left


def _terminate(number: int, frame: FrameType | None) -> None:
    """Unwind as an exception would, so that every worker is ended; a second signal is ignored."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    click.echo("terminated", err=True)
    raise SystemExit(EXIT_TERMINATED)
