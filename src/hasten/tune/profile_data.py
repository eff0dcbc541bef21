"""How fast a task's loader is, how much of a step it takes, and what other ways would give."""

import time
from collections.abc import Callable
from pathlib import Path

from hasten.measure.lab import Lab
from hasten.measure.messages import LoadingMeasured
from hasten.measure.worker import WorkerFailure
from hasten.records.loading import DataReport, LoaderShare, Mode, Rate
from hasten.records.plan import NAIVE, Plan
from hasten.records.profile import Bound
from hasten.records.recipe import read_recipe
from hasten.records.trial import Offer

SEARCH_S = 12.0
LITTLE = 0.03
"""Of a step: a loader that takes less is left alone."""
FASTER = 1.1
"""Times the loader as it is; a way that gives less is not worth a change."""


def profile_data(
    task: str, *, recipe: Path | None, seed: int, tell: Callable[[str], None]
) -> DataReport:
    """``recipe`` decides by which plan steps are taken; the loader is the task's own."""
    began = time.monotonic()
    plan = NAIVE if recipe is None else read_recipe(recipe).as_plan()
    with Lab(task, seed) as lab:
        tell(f"building {task} and running one step")
        offers = lab.describe({str(recipe): plan}).offers
        tell("doing without the loader and the optimizer")
        share, notes = _share(lab, plan)
        tell("loading by the loader as it is, and by others")
        found = lab.loading(SEARCH_S)
    own = next((each for each in found.rates if each.mode == "own"), None)
    return DataReport(
        task=task,
        plan=plan,
        rows_per_s=own.rows_per_s if own else None,
        batch_s=own.seconds_per_batch if own else None,
        share=share,
        rating=found.rating,
        rates=found.rates,
        refused=found.refused,
        disk=found.disk,
        next=what_next(task, share, own, found, offers),
        notes=(*notes, *found.notes),
        elapsed_s=time.monotonic() - began,
    )


def _share(lab: Lab, plan: Plan) -> tuple[LoaderShare | None, tuple[str, ...]]:
    try:
        bounds = lab.bounds(plan)
    except WorkerFailure as failure:
        return None, (f"the loader's share of a step was not measured: {failure.failed.what}",)
    bound = next(each for each in bounds if each.without == "loader")
    return share_of(bound), ()


def share_of(bound: Bound) -> LoaderShare:
    """A step that is so many times as fast without it has spent the rest on it."""
    return LoaderShare(
        share=1 - 1 / bound.ratio,
        low=1 - 1 / bound.low,
        high=1 - 1 / bound.high,
        how=bound.how,
    )


def what_next(
    task: str,
    share: LoaderShare | None,
    own: Rate | None,
    found: LoadingMeasured,
    offers: tuple[Offer, ...],
) -> tuple[str, ...]:
    """What to do about it, first things first."""
    if share is not None and share.high < LITTLE:
        return (f"Nothing: the loader takes {max(share.share, 0):.1%} of a step.",)
    advice = []
    best = max(found.rates, key=lambda each: each.rows_per_s, default=None)
    if own and best and best.rows_per_s >= FASTER * own.rows_per_s:
        times = best.rows_per_s / own.rows_per_s
        how = f" ({best.how})" if best.how else ""
        advice += [
            f"hasten.DataPipelineOptimizer().optimize_dataloader(loader) gives the same batches by "
            f"the fastest safe way; {best.mode}{how} was {times:.1f} times as fast here.",
            *_technique(task, best.mode, offers),
        ]
    if found.disk is not None and found.disk.verdict == "disk":
        advice.append("Keep the files in memory or on a faster disk: the disk is waited for.")
    others = "faster" if len(found.rates) > 1 else "safe for it"
    return tuple(advice) or (f"Make an item cheaper to read: no other way of loading is {others}.",)


def _technique(task: str, mode: Mode, offers: tuple[Offer, ...]) -> list[str]:
    """What tuning does of the same kind; items that are read once and kept it does not know."""
    technique = {
        "resident": "resident_data",
        "batched": "batched_loader",
        "prefetched": "batched_loader",
        "workers": "loader_workers",
    }.get(mode)
    if technique not in [each.technique for each in offers if each.refusal is None]:
        return []
    return [f"hasten tune {task} tries {technique}, and proves whether a step gains by it."]
