"""``hasten explain``: a technique or a rule in full, or all of them in tables."""

import click

from hasten.cli.options import as_json
from hasten.cli.output import print_json, print_rich


@click.command()
@click.argument("name", required=False)
@as_json
def explain(name: str | None, as_json: bool) -> None:
    """Say all about a technique or a rule of scan, or list them all.

    Of a technique: what it does, when it helps, what it costs, how far it may change the numbers,
    its limits, needs and settings, and how to switch it on. Of a rule, by its code: what it finds,
    why, what to write instead, and what that was measured to gain.
    """
    from hasten.records.explanation import Explanations
    from hasten.report.explanation import explanations_page
    from hasten.scan.words import rules_in_words

    rules = rules_in_words(name) if name is not None else ()
    if rules:  # torch is not loaded to tell of these
        found = Explanations(techniques=(), rules=rules)
    else:
        from hasten.explain import explain as look_up

        found = look_up(name)
    if as_json:
        print_json(found)
    else:
        print_rich(explanations_page(found))
