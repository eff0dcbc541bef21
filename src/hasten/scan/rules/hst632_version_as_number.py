"""A version of torch that is compared as a number."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, names_in
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class VersionAsNumber(Rule):
    code = "HST632"
    name = "version-as-number"
    why = (
        "As a number 1.13 is less than 1.9, and 2.13 cut to three characters is 2.1: a fast path"
        " is switched off, or on, for the wrong versions."
    )
    instead = 'Compare versions: `torch.__version__ >= "2.1"` does it right.'
    effort = "a minute"
    calls = ("float",)
    least = Heat.ONCE
    severity = "low"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

if float(torch.__version__[:3]) >= 1.6:  # !
    from torch.cuda.amp import autocast
""",
        """\
import torch

MODERN = float(".".join(torch.__version__.split(".")[:2])) > 1.9  # !
""",
        """\
import torch
from packaging.version import Version

MODERN = torch.__version__ >= "2.1" or Version(torch.__version__) >= Version("2.1")
RATE = float("0.1")
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.node.args and "__version__" in names_in(site.node.args[0]):
            yield Found(site.node, f"`{look.source(site.node)}` puts 1.13 before 1.9")
