"""Options and output that several commands share."""

from typing import Any

import click

PIPE_WIDTH = 110
"""A file or a pipe has no width of its own."""

as_json = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on stdout, for programs."
)


def print_json(record: object) -> None:
    from hasten.records.record import to_json

    click.echo(to_json(record))


def print_rich(renderable: Any) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PIPE_WIDTH)
    console.print(renderable)
