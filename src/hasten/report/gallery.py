"""The page of ``hasten gallery``: what each bundled workload learns, and how to run it."""

from rich.console import Group, RenderableType
from rich.text import Text

from hasten.records.gallery import Workload
from hasten.report.lines import Rows, unbroken
from hasten.report.text import number, printable

CLOSING = (
    "gallery:NAME is the small size, gallery:NAME@SIZE any other. The scripts are plain PyTorch "
    "and slow on purpose; what they do wrong is in --json."
)


def gallery_card(workloads: tuple[Workload, ...]) -> RenderableType:
    sections: list[RenderableType] = []
    for each in workloads:
        about = Rows([("", printable(each.about))])
        sections += [Text(printable(each.name), style="bold"), about, Rows(_facts(each)), ""]
    return Group(*sections, Rows([("", CLOSING)], indent=""))


def _facts(workload: Workload) -> list[tuple[str, str | Text]]:
    name = printable(workload.name)
    return [
        ("metric", printable(_metric(workload))),
        *((printable(size.name), printable(size.shape)) for size in workload.sizes),
        ("tune it", unbroken(f"hasten tune gallery:{name}")),
        ("its script", unbroken(f"python -m hasten.gallery.{name}.naive")),
    ]


def _metric(workload: Workload) -> str:
    better = "higher" if workload.higher_is_better else "lower"
    return (
        f"{workload.metric}, {better} is better: guessing comes to {number(workload.chance)}, "
        f"and the script is better by {number(workload.margin)} or more"
    )
