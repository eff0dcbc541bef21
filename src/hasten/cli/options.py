"""Options and output that several commands share."""

from typing import Any

import click

as_json = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on stdout, for programs."
)


def print_json(record: object) -> None:
    from hasten.records.record import to_json

    click.echo(to_json(record))


def print_rich(renderable: Any) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    # A pipe has no width: do not fold what a program or a file will hold.
    console.print(renderable, soft_wrap=False, width=None if console.is_terminal else 110)
