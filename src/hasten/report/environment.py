"""The page of ``hasten env``."""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.record import Record
from hasten.report.text import printable, size


class TechniqueHere(Record, frozen=True, kw_only=True):
    name: str
    about: str
    rung: Rung
    unavailable: str | None
    """Why this machine cannot run it; None where it can."""


class EnvironmentReport(Record, frozen=True, kw_only=True):
    environment: Environment
    fingerprint: str
    techniques: tuple[TechniqueHere, ...]


def environment_card(report: EnvironmentReport) -> RenderableType:
    machine = Table.grid(padding=(0, 2))
    for name, value in machine_rows(report.environment).items():
        machine.add_row(name, Text(printable(value)))
    techniques = Table.grid(padding=(0, 2))
    for each in report.techniques:
        can = Text("can", style="green") if each.unavailable is None else Text("cannot", "yellow")
        about = Text(printable(each.unavailable or each.about))
        techniques.add_row(Text(printable(each.name)), can, each.rung, about)
    return Group(
        Text("This machine", style="bold"),
        Padding(machine, (0, 0, 1, 2)),
        Text("Techniques here", style="bold"),
        Padding(techniques, (0, 0, 0, 2)),
    )


def machine_rows(here: Environment) -> dict[str, str]:
    return {
        "device": f"{here.device.count} x {here.device.name}, {size(here.device.memory_bytes)}",
        "cpu": here.cpu,
        "cores": f"{here.cores_allowed:g} of {here.cores_present} may be used by this process",
        "threads": f"{here.threads} for torch on the CPU",
        "memory": size(here.memory_bytes),
        "shared memory": size(here.shared_memory_bytes),
        "system": here.system,
        "versions": ", ".join(f"{name} {version}" for name, version in here.versions.items()),
        "compiler": here.compiler or "none found on the path",
        "fingerprint": here.fingerprint(),
    }
