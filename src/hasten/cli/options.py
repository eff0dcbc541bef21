"""Options that several commands share."""

import os
from pathlib import Path

import click

from hasten.errors import HastenError

as_json = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on stdout, for programs."
)


class NamedPath(click.Path):
    """One that is not empty: the path of an empty name would be the folder one is in."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        if value == "":
            raise HastenError(
                f"{param.opts[0] if param else 'A path'} is empty.",
                fix="Name a path; the folder you are in is '.'. Is a variable of the shell unset?",
            )
        return super().convert(value, param, ctx)
