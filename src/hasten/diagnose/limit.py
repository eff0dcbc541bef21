"""What a step is bound by: pure, from what was measured of it.

The largest of the shares that do not overlap decides. Where it is the model's own computing, the
ceilings tell which kind of it; where they tell of none, the largest other share decides if it is
large enough, and else the step is balanced.
"""

from hasten.diagnose.shares import Shares
from hasten.diagnose.thresholds import CEILING_SHARE, LIMIT_SHARE
from hasten.records.profile import Launches, Limit, Work
from hasten.records.traits import ModelTraits


def limit_of(
    shares: Shares, model: ModelTraits, launches: Launches | None, work: Work | None
) -> tuple[Limit, str]:
    """The limit and the figure behind it, in a sentence."""
    causes: dict[Limit, tuple[float, str]] = {
        "input-bound": (shares.loader, "spent on data: waiting for it and moving it to the device"),
        "sync-bound": (shares.syncs, "spent idle because the host waits for results"),
        "launch-bound": (shares.launching, _launching(launches)),
        "host-bound": (shares.in_python, "spent in Python that launches nothing"),
        "optimizer-bound": (shares.optimizer, "spent on the arithmetic of updating the weights"),
    }
    limit = max(causes, key=lambda name: causes[name][0])
    share, doing = causes[limit]
    computing, why = _kind_of_computing(shares, model, work)
    if shares.model >= share and (computing != "balanced" or share < LIMIT_SHARE):
        return computing, why
    if share < LIMIT_SHARE:
        return "balanced", f"nothing takes more than {_percent(share)} of a step"
    return limit, f"{_percent(share)} of a step is {doing}"


def _kind_of_computing(shares: Shares, model: ModelTraits, work: Work | None) -> tuple[Limit, str]:
    within = max(shares.model, 1e-12)
    busy = f"the model computes {_percent(shares.model)} of a step"
    at_ceiling = work.share / within if work else 0.0
    moving = work.moved_share / within if work else 0.0
    if work and at_ceiling >= CEILING_SHARE and at_ceiling >= moving:
        return "compute-bound", (
            f"{busy}, and its products run at {_percent(at_ceiling)} of what this machine does in "
            f"{work.computed_in}"
        )
    if "recurrent" in model.families and shares.model >= LIMIT_SHARE:
        return "recurrent", f"{busy}, one moment of its recurrent layers after the other"
    if moving >= CEILING_SHARE:
        return "memory-bound", (
            f"{busy}, and {_percent(min(moving, 1.0))} of that is what moving the data of its "
            "small operations takes"
        )
    return "balanced", f"{busy}, and neither products nor memory are near their ceilings"


def _launching(launches: Launches | None) -> str:
    if launches is None:
        return "spent launching operations"
    return f"spent launching {launches.per_step:.0f} operations, too small to hide the next launch"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
