"""``hasten cache``: what is kept of data, and how much of it."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from hasten.cli.options import NamedPath, as_json
from hasten.cli.output import print_json, print_rich, say
from hasten.errors import HastenError

in_folder = click.option(
    "--folder", type=NamedPath(), help="The cache's folder, if it is not the usual one."
)


@click.group()
def cache() -> None:
    """List, check and remove what is kept of data.

    That is files that were read, and results of cached functions. What is removed is built anew
    when it is next asked for.
    """


@cache.command()
@in_folder
@as_json
def ls(folder: Path | None, as_json: bool) -> None:
    """List the entries, the last used first."""
    from hasten.data.cache.upkeep import list_entries
    from hasten.report.cache import listing_card

    _show(list_entries(_root(folder)), listing_card, as_json)


@cache.command()
@in_folder
@as_json
@click.pass_context
def verify(context: click.Context, folder: Path | None, as_json: bool) -> None:
    """Read every byte and compare checksums. Bad entries are removed.

    Exit 0: all are good. 1: one was bad. 2: a fault.
    """
    from rich.console import Console

    from hasten.data.cache import upkeep
    from hasten.report.cache import verification_card
    from hasten.report.progress import Progress

    with Progress(Console(stderr=True)) as progress:
        verified = upkeep.verify(_root(folder), progress.tell)
    _show(verified, verification_card, as_json)
    context.exit(1 if verified.removed else 0)


@cache.command()
@click.option("--limit", help="How much may stay, such as 5GB; the usual limit if not given.")
@click.option("--older-than", help="Remove what was not used for so long, such as 30d.")
@in_folder
@as_json
def prune(limit: str | None, older_than: str | None, folder: Path | None, as_json: bool) -> None:
    """Remove the least recently used entries, and what killed processes left."""
    from hasten.data.cache import upkeep
    from hasten.host.amounts import parse_bytes, parse_duration
    from hasten.report.cache import removal_card

    removed = upkeep.prune(
        _root(folder),
        limit_bytes=None if limit is None else parse_bytes(limit),
        older_than_s=None if older_than is None else parse_duration(older_than),
    )
    _show(removed, removal_card, as_json)


@cache.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@in_folder
@as_json
@click.pass_context
def clear(context: click.Context, yes: bool, folder: Path | None, as_json: bool) -> None:
    """Remove all entries.

    Exit 0: done. 1: you said no. 2: a fault.
    """
    from hasten.data.cache import upkeep
    from hasten.report.cache import removal_card

    root = _root(folder)
    if not yes and not _agreed(root):
        say("Nothing was removed.")
        context.exit(1)
    _show(upkeep.clear(root), removal_card, as_json)


def _agreed(root: Path) -> bool:
    from hasten.report.text import printable

    if sys.stdin is None or not sys.stdin.isatty():
        raise HastenError(
            f"Nobody can be asked whether to clear the cache in {root}.", fix="Add --yes."
        )
    return click.confirm(f"Remove all entries of {printable(str(root))}?", err=True)


def _root(folder: Path | None) -> Path:
    from hasten.host.folders import cache_root

    return cache_root() if folder is None else folder.absolute()


def _show(record: Any, card: Callable[[Any], Any], as_json: bool) -> None:
    if as_json:
        print_json(record)
    else:
        print_rich(card(record))
