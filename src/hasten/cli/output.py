"""What commands write: results to stdout, words for people to stderr."""

import io
import os
import re
import select
import shutil
import sys
from typing import Any, TextIO

import click

from hasten.errors import HastenError

PIPE_WIDTH = 110
"""A file or a pipe has no width of its own; COLUMNS gives it one."""
PADDING = re.compile(r" +$", re.MULTILINE)


def print_json(record: object) -> None:
    from hasten.records.record import to_json

    _write(to_json(record).decode() + "\n")


def print_text(text: str) -> None:
    """As it is, for files and programs."""
    _write(text)


def print_rich(renderable: Any) -> None:
    """Lines longer than the page are to be copied: the terminal breaks them, not we."""
    from rich.console import Console

    page = io.StringIO()
    console = Console(
        file=page,
        highlight=False,
        force_terminal=True if sys.stdout and sys.stdout.isatty() else None,
        width=shutil.get_terminal_size((PIPE_WIDTH, 0)).columns,
    )
    console.print(renderable, crop=False)
    _write(PADDING.sub("", page.getvalue()))


def say(words: str) -> None:
    """To whoever reads stderr, if anybody does."""
    try:
        click.echo(words, err=True)
    except OSError:
        _let_go(sys.stderr)


def leave() -> None:
    """Where nobody reads stderr any more, what is said at the exit must not change its code."""
    if sys.stderr is None:
        return
    watched = select.poll()
    watched.register(sys.stderr.fileno(), 0)
    if watched.poll(0):
        _let_go(sys.stderr)


def _write(text: str) -> None:
    """All of it, now: at the exit it would be too late to say that it could not be written."""
    if sys.stdout is None:  # closed by whoever started this; click would say nothing
        raise _unwritten("it is closed")
    try:
        click.echo(text, nl=False, color=True)
    except OSError as error:
        _let_go(sys.stdout)
        raise _unwritten(str(error.strerror or error)) from error


def _unwritten(why: str) -> HastenError:
    return HastenError(
        f"The result could not be written to stdout: {why}.",
        fix="Make room, or send stdout elsewhere.",
    )


def _let_go(stream: TextIO) -> None:
    """What it still holds would be tried again at the exit, and change the exit code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
