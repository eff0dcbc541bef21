"""``hasten explain``: a technique in full, or all of them in a table."""

import click

from hasten.cli.options import as_json
from hasten.cli.output import print_json, print_rich


@click.command()
@click.argument("technique", required=False)
@as_json
def explain(technique: str | None, as_json: bool) -> None:
    """Say all about TECHNIQUE, or list every technique.

    What it does, when it helps, what it costs, how far it may change the numbers, its limits,
    needs and settings, and how to switch it on.
    """
    from hasten.explain import explain as look_up
    from hasten.report.explanation import explanation_card, explanations_table

    found = look_up(technique)
    if as_json:
        print_json(found)
    elif technique is None:
        print_rich(explanations_table(found))
    else:
        print_rich(explanation_card(found.techniques[0]))
