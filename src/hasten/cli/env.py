"""``hasten env``: this machine, and what each technique can do on it."""

import click

from hasten.cli.options import as_json
from hasten.cli.output import print_json, print_rich


@click.command()
@as_json
def env(as_json: bool) -> None:
    """Show this machine and what each technique can or cannot do here."""
    from hasten.host.environment import read_environment
    from hasten.report.environment import EnvironmentReport, TechniqueHere, environment_card
    from hasten.techniques.registry import all_techniques

    environment = read_environment()
    report = EnvironmentReport(
        environment=environment,
        fingerprint=environment.fingerprint(),
        techniques=tuple(
            TechniqueHere(
                name=each.name,
                about=each.about,
                rung=each.rung,
                unavailable=each.unavailable(environment),
            )
            for each in all_techniques()
        ),
    )
    if as_json:
        print_json(report)
    else:
        print_rich(environment_card(report))
