"""The search for anomalies left on."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Fix
from hasten.scan.edits import fix_of, leave_out, replace
from hasten.scan.heat import Heat
from hasten.scan.look import Look, argument, is_constant
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class AnomalyMode(Rule):
    code = "HST426"
    name = "anomaly-mode"
    why = "A stack trace is kept for every operation and every gradient is looked through for NaN."
    instead = "Turn it on only while looking for an error."
    effort = "a minute"
    calls = ("set_detect_anomaly", "detect_anomaly")
    least = Heat.ONCE
    severity = "high"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

torch.autograd.set_detect_anomaly(True)  # !

def train(loss):
    with torch.autograd.detect_anomaly():  # !
        loss.backward()
""",
        """\
import torch

def train(loss, debug):
    torch.autograd.set_detect_anomaly(debug)
    torch.autograd.set_detect_anomaly(False)
    if debug:
        torch.autograd.set_detect_anomaly(True)
    loss.backward()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if look.is_rare(site):
            return
        mode = argument(site.node, 0, "mode")
        if is_constant(mode, True) or (mode is None and not site.node.args):
            message = "every step is searched for anomalies"
            yield Found(site.node, message, _turn_off(mode, site, look))


def _turn_off(mode: ast.expr | None, site: Site, look: Look) -> Fix | None:
    """It is off unless it is turned on."""
    if mode is None:
        return None
    about = "Turns it off."
    return leave_out(site, look.lines, about) or fix_of(
        "unsafe", about, replace(look.lines, mode, "False")
    )
