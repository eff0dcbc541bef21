"""``hasten gallery``: the workloads that come with Hasten."""

import click

from hasten.cli.options import as_json
from hasten.cli.output import print_json, print_rich


@click.command()
@as_json
def gallery(as_json: bool) -> None:
    """List the bundled workloads.

    What each learns from what, its metric and what guessing comes to, its sizes, and how to run
    it: as a task, and as the plain script that it starts from.
    """
    from hasten.gallery.catalogue import read_catalogue
    from hasten.report.gallery import gallery_card

    found = read_catalogue()
    if as_json:
        print_json(found)
    else:
        print_rich(gallery_card(found.workloads))
