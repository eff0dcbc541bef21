"""Does a plan leave the training the same? Fails closed: what was not shown is not proven."""

from collections.abc import Iterator
from typing import Literal

from hasten.measure import messages
from hasten.measure.lab import Lab
from hasten.measure.worker import Worker, WorkerFailure
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.traits import Reduction, Traits
from hasten.records.verdict import Check, NumericsClaim, Verdict
from hasten.stats.yardstick import ALLOWED, Excess, Norms, excess

DATA_EPOCHS = 2
"""A wrong order often shows in the second epoch only."""
DATA_LIMIT_S = 120.0
LOSS_ROUNDING = 1e-6
"""Relative: the last digits of an fp32 loss."""


class Prover:
    """Compares plans with the naive one from the same seed; the naive side is run once."""

    def __init__(self, lab: Lab, traits: Traits, seed: int) -> None:
        self._lab = lab
        self._seed = seed
        self._reduction: Reduction = "coupled" if traits.couples_batch else traits.loss_reduction
        self._path = lab.folder / f"trace-{seed}.safetensors"
        self._start: dict[str, str] = {}
        self._traced: messages.BaselineTraced | None = None
        self._data: messages.DataDigested | None = None

    def prove(self, plan: Plan, rung: Rung, *, check_data: bool) -> NumericsClaim:
        """The start, data and rung checks, in this order; the first that fails ends it."""
        checks: list[Check] = []
        worker = self._lab.worker()
        try:
            for check in self._checks(worker, plan, rung, check_data):
                checks.append(check)
                if check.verdict != "proven":
                    break
        except WorkerFailure as failure:
            name: Literal["bitwise", "rounding"] = "bitwise" if rung is Rung.BITWISE else "rounding"
            checks.append(Check(name=name, verdict="not_proven", why=failure.failed.what))
        finally:
            worker.close()
        verdict = checks[-1].verdict if checks else "not_proven"
        return NumericsClaim(rung=rung, verdict=verdict, checks=tuple(checks))

    def _checks(self, worker: Worker, plan: Plan, rung: Rung, check_data: bool) -> Iterator[Check]:
        baseline = self._baseline()
        started = worker.ask(self._start_request(plan), messages.Started)
        yield check_start(self._start, started.state)
        request = messages.Trace(path=str(self._path), role="candidate", reduction=self._reduction)
        traced = worker.ask(request, messages.CandidateTraced)
        if rung is Rung.BITWISE:
            yield check_bitwise(baseline, traced)
        else:
            yield check_rounding(baseline, traced)
        if check_data:
            worker.ask(self._start_request(plan), messages.Started)
            yield check_data_digests(self._baseline_data(), _digest_data(worker))

    def _baseline(self) -> messages.BaselineTraced:
        if self._traced is None:
            worker = self._lab.worker()
            try:
                self._start = worker.ask(self._start_request(NAIVE), messages.Started).state
                request = messages.Trace(
                    path=str(self._path), role="baseline", reduction=self._reduction
                )
                self._traced = worker.ask(request, messages.BaselineTraced)
            finally:
                worker.close()
        return self._traced

    def _baseline_data(self) -> messages.DataDigested:
        if self._data is None:
            worker = self._lab.worker()
            try:
                worker.ask(self._start_request(NAIVE), messages.Started)
                self._data = _digest_data(worker)
            finally:
                worker.close()
        return self._data

    def _start_request(self, plan: Plan) -> messages.Start:
        return self._lab.start(plan, for_proof=True, seed=self._seed)


def _digest_data(worker: Worker) -> messages.DataDigested:
    request = messages.DigestData(epochs=DATA_EPOCHS, limit_s=DATA_LIMIT_S)
    return worker.ask(request, messages.DataDigested)


def check_start(naive: dict[str, str], plan: dict[str, str]) -> Check:
    """Both sides begin from the same bits."""
    unequal = sorted(key for key in naive.keys() | plan.keys() if naive.get(key) != plan.get(key))
    if unequal:
        why = f"{unequal[0]} differs before the first step ({len(unequal)} in all)"
        return Check(name="start", verdict="refuted", why=why)
    return Check(name="start", verdict="proven", why=f"{len(naive)} digests equal before step 1")


def check_data_digests(naive: messages.DataDigested, plan: messages.DataDigested) -> Check:
    """The same batches in the same order, and the random generators moved alike."""
    pairs = zip(naive.batches, plan.batches, strict=False)
    first = next((i for i, (one, other) in enumerate(pairs) if one != other), None)
    if first is not None:
        return Check(name="data", verdict="refuted", why=f"batch {first} is another one")
    if not (naive.complete and plan.complete):
        seen = min(len(naive.batches), len(plan.batches))
        why = f"only {seen} batches could be compared in {DATA_LIMIT_S:.0f} s"
        return Check(name="data", verdict="not_proven", why=why)
    if len(naive.batches) != len(plan.batches):
        why = f"{len(plan.batches)} batches in {DATA_EPOCHS} epochs, not {len(naive.batches)}"
        return Check(name="data", verdict="refuted", why=why)
    if naive.after != plan.after:
        why = "the random generators stand elsewhere after the epochs"
        return Check(name="data", verdict="refuted", why=why)
    why = f"{len(naive.batches)} batches of {DATA_EPOCHS} epochs equal to the bit"
    return Check(name="data", verdict="proven", why=why)


def check_bitwise(naive: messages.BaselineTraced, plan: messages.CandidateTraced) -> Check:
    if not naive.repeats:
        why = "the naive training does not repeat itself to the bit, so nothing can equal it"
        return Check(name="bitwise", verdict="not_proven", why=why)
    if plan.missing:
        return Check(name="bitwise", verdict="refuted", why=_missing(plan))
    if not plan.bitwise:
        why = f"{plan.first_unequal} differs"
        return Check(name="bitwise", verdict="refuted", why=why)
    why = f"losses, gradients and updates of {len(naive.steps)} steps equal to the bit"
    return Check(name="bitwise", verdict="proven", why=why)


def check_rounding(naive: messages.BaselineTraced, plan: messages.CandidateTraced) -> Check:
    """Within twice what a perturbation of 1e-5 of the naive weights causes (stats.yardstick)."""
    if plan.missing:
        return Check(name="rounding", verdict="refuted", why=_missing(plan))
    shares = {key: _excess(naive, plan, key) for key in naive.quantities}
    worst = max(shares, key=lambda key: shares[key].share)
    loss = _loss_excess(naive, plan)
    largest = max(shares[worst].share, loss)
    holds = largest <= 1.0
    verdict: Verdict = "proven" if holds or _nearer_to_fp64(naive, plan) else "refuted"
    where = f"{worst} of {shares[worst].parameter}" if shares[worst].share >= loss else "losses"
    why = f"largest difference {largest:.2g} of what rounding may cause ({where})"
    if not holds and verdict == "proven":
        why += ", and nearer to fp64 than the naive training"
    if not naive.repeats:
        why += "; the naive training does not repeat itself, which is counted as rounding"
    return Check(name="rounding", verdict=verdict, why=why)


def _excess(naive: messages.BaselineTraced, plan: messages.CandidateTraced, key: str) -> Excess:
    base = naive.quantities[key]
    return excess(
        Norms(
            size=base.size,
            sensitivity=base.sensitivity,
            resolution=base.resolution,
            difference=plan.quantities[key].norms,
        )
    )


def _loss_excess(naive: messages.BaselineTraced, plan: messages.CandidateTraced) -> float:
    rows = zip(naive.losses, plan.losses, naive.loss_sensitivity, strict=True)
    shares = [
        abs(one - other) / max(ALLOWED * moved + LOSS_ROUNDING * abs(one), 1e-300)
        for one, other, moved in rows
    ]
    return max((share if share == share else float("inf") for share in shares), default=0.0)


def _nearer_to_fp64(naive: messages.BaselineTraced, plan: messages.CandidateTraced) -> bool:
    """A candidate that is no further from the truth than the baseline is not wrong."""
    for key, base in naive.quantities.items():
        ours = plan.quantities[key].fp64_error
        if base.fp64_error is None or ours is None or not ours <= base.fp64_error:
            return False
    return True


def _missing(plan: messages.CandidateTraced) -> str:
    return f"{plan.missing[0]} has a gradient on one side only ({len(plan.missing)} in all)"
