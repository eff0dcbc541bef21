"""``cudnn.benchmark`` together with ``cudnn.deterministic``."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, assigned, is_constant
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class BenchmarkWithDeterministic(Rule):
    code = "HST627"
    name = "benchmark-with-deterministic"
    why = (
        "Benchmarking picks the algorithm that was fastest in this run, which may be another in the"
        " next: results do not repeat, and the fast algorithms are switched off all the same."
    )
    instead = "Set `benchmark = False` to repeat results, or `deterministic = False` to be fast."
    effort = "a minute"
    risk = "depends on which of the two is wanted"
    verify = "Run twice from one seed and compare losses."
    writes = ("benchmark", "deterministic")
    least = Heat.ONCE
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def seed(number):
    torch.manual_seed(number)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = True  # !
""",
        """\
import torch
import torch.backends.cudnn as cudnn

cudnn.benchmark = True  # !
cudnn.deterministic = True
""",
        """\
import torch

def seed(number, fast):
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    if fast:
        torch.backends.cudnn.benchmark = True
    else:
        torch.backends.cudnn.deterministic = True
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.node.attr != "benchmark" or not _switches_on(site, look):
            return
        others = look.outline.writes.get("deterministic", ())
        if any(
            each.function is site.function and each.block is site.block and _switches_on(each, look)
            for each in others
        ):
            yield Found(site.node, "`benchmark` and `deterministic` contradict each other")


def _switches_on(site: Site, look: Look) -> bool:
    return "cudnn" in look.dotted(site.node) and is_constant(assigned(site), True)
