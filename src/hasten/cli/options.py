"""Options that several commands share."""

import math
import os
from pathlib import Path

import click

from hasten.errors import HastenError

as_json = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on stdout, for programs."
)
SEED = click.IntRange(0, 2**63 - 1)
"""What Python, numpy (by its remainder), torch and the records take, with those counted from it."""
seed_of_every_run = click.option(
    "--seed", type=SEED, default=0, show_default=True, help="Seed of every run."
)
MOST_MINUTES = 365 * 24 * 60
"""A year; far longer ones are more than the system's clocks take."""


class Minutes(click.FloatRange):
    """So many at least, a year at most."""

    def __init__(self, least: float, *, beyond: bool = False) -> None:
        """``beyond``: more than the least."""
        super().__init__(min=least, min_open=beyond, max=MOST_MINUTES)

    def convert(
        self, value: float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        minutes: float = super().convert(value, param, ctx)
        if math.isnan(minutes):  # which is neither less than anything nor more
            self.fail(f"{minutes} is not in the range {self._describe_range()}.", param, ctx)
        return minutes


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
