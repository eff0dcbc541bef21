"""The ``hasten`` command: its group, its errors, its signals, its exit codes.

Torch is imported by a command that needs it, never to print help.
"""

import io
import os
import re
import signal
import sys
import traceback
from contextlib import suppress
from types import FrameType, TracebackType

import click

from hasten import __version__
from hasten.cli.bench import bench
from hasten.cli.cache import cache
from hasten.cli.env import env
from hasten.cli.explain import explain
from hasten.cli.gallery import gallery
from hasten.cli.output import leave, print_json, say
from hasten.cli.profile import profile
from hasten.cli.prove import prove
from hasten.cli.scan import scan
from hasten.cli.train import train
from hasten.cli.tune import tune
from hasten.errors import HastenError

FAULT = "this is a fault of Hasten"
EXIT_FAULT = 2
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hasten")
def hasten() -> None:
    """Makes PyTorch training faster and smaller, and proves it.

    A TASK is gallery:NAME, file.py:function or package.module:function; the function takes no
    arguments and returns a hasten.Task.

    Exit codes: 0 done, 1 a claim did not hold, 2 a fault, 130 or 143 ended.
    """


for command in (tune, train, profile, scan, bench, prove, explain, gallery, cache, env):
    hasten.add_command(command)


def main() -> None:
    signal.signal(signal.SIGTERM, _terminate)
    sys.excepthook = _crash
    try:
        code = hasten.main(standalone_mode=False)
    except HastenError as error:
        code = _report(error)
    except click.ClickException as error:
        code = _report_usage(error)
    except (KeyboardInterrupt, click.Abort):
        say("interrupted")
        code = EXIT_INTERRUPTED
    finally:
        leave()
    sys.exit(code or 0)


def _report(error: HastenError) -> int:
    _document(error.what, error.fix, error.detail)
    from hasten.report.text import printable_lines

    if error.detail:
        say(printable_lines(error.detail.rstrip()) + "\n")
    say(printable_lines(f"error: {error.what}"))
    if error.fix:
        say(printable_lines(f"       {error.fix}"))
    return EXIT_FAULT


def _report_usage(error: click.ClickException) -> int:
    """A command line that click does not understand; it has its own words for people."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "hasten"
    _document(error.format_message(), f"Try '{command} --help' for help.")
    from hasten.report.text import printable_lines

    words = io.StringIO()
    error.show(words)
    say(printable_lines(words.getvalue().rstrip()))
    return EXIT_FAULT


def _document(what: str, fix: str, detail: str = "") -> None:
    """Programs read stdout, people stderr."""
    if not re.search(r"\s(--json|--format[ =]json)(\s|$)", " ".join(sys.argv)):
        return
    try:
        print_json({"error": what, "fix": fix, "detail": detail})
    except HastenError as error:  # the error itself is still told on stderr
        say(f"warning: {error.what}")


def _crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A fault of ours: Python would exit with 1, which here means that a claim did not hold."""
    sys.__excepthook__(kind, error, trace)
    detail = "".join(traceback.format_exception(kind, error, trace))
    _document(f"{FAULT}.", "Please report it with the detail.", detail)
    say(f"error: {FAULT}; please report it with the lines above")
    if sys.stdout is not None:
        with suppress(OSError):
            sys.stdout.flush()
    os._exit(EXIT_FAULT)  # everything has been unwound, so that no worker is left


def _terminate(number: int, frame: FrameType | None) -> None:
    """Unwind as an exception would, so that every worker is ended; a second signal is ignored."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say("terminated")
    raise SystemExit(EXIT_TERMINATED)
