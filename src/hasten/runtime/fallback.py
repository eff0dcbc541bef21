"""A technique that fails is dropped, and training goes on without it from restored state.

The only place in the runtime with a broad except: a compiler, a kernel or a user's own technique
may raise anything, at the first step or at any later one. What the user's code raises by itself is
raised to the user.
"""

import traceback
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar

from torch import Tensor

from hasten.records.applied import Applied
from hasten.records.plan import Plan
from hasten.runtime.apply import apply_plan, loading, undo_all
from hasten.runtime.rewind import HostState, Rewind
from hasten.runtime.snapshot import Snapshot
from hasten.task.pipeline import Pipeline

if TYPE_CHECKING:
    from hasten.runtime.run import Run

T = TypeVar("T")


def first_step(run: "Run", batch: Any) -> tuple[Tensor, bool]:
    """Run the first step; on failure redo it from restored state without the guilty technique.

    The guilty one is found by leaving out one technique at a time, the last applied first. If no
    single one is to blame all are dropped. A failure of the plain step is the user's own.
    Returns the loss, and whether all that is applied now has shown that it runs.
    """
    snapshot, host = Snapshot(run.pipeline), HostState(run.model)
    try:
        loss = run.pipeline.step(batch)
    except Exception as error:  # noqa: BLE001  # whatever a technique raises, training goes on
        failure = error
    else:
        trusted = _drop_what_did_not_run(run)
        _watch(run, host)
        return loss, trusted
    # Not inside the handler: what the user's code raises now has nothing of ours behind it.
    snapshot.restore()  # before the undo: the state was taken under these effects
    return _redo_without_guilty(run, batch, failure)


def later_step(run: "Run", batch: Any) -> Tensor:
    """A step of techniques that have run before; whatever fails now is found and dropped too."""
    try:
        loss = run.pipeline.step(batch)
    except Exception as error:  # noqa: BLE001  # as above
        failure = error
    else:
        problems = {
            live.technique: problem
            for live in run.effects
            if live.effect.problem is not None and (problem := live.effect.problem())
        }
        if problems:
            _drop(run, problems)
        return loss
    assert run.rewind is not None  # the first step has set it up
    if not run.rewind.restore():
        failure.add_note("Hasten could not redo this step: the weights were updated in part.")
        raise failure
    loss, _ = _redo_without_guilty(run, batch, failure)
    return loss


def load(run: "Run", work: Callable[[], T], instead: Callable[[], T]) -> T:
    """Do something with the loader. Where that fails all techniques that load are dropped, and it
    is done with the loader that is left."""
    try:
        return work()
    except StopIteration:
        raise
    except Exception as error:
        failure, suspects = error, loading(run.effects)
        if not suspects:
            raise
    _drop(run, {live.technique: _brief(failure) for live in suspects})
    return instead()  # what is raised now is the user's own


def _watch(run: "Run", before: HostState) -> None:
    run.rewind = Rewind(run.eager, before)
    run.eager.before = run.rewind.note


def _redo_without_guilty(run: "Run", batch: Any, failure: Exception) -> tuple[Tensor, bool]:
    traceback.clear_frames(failure.__traceback__)  # they hold the failed step's activations
    names = [live.technique for live in run.effects]
    take_over_scale = _keep_scale(run.pipeline)
    undo_all(run.effects)
    plain, host = Snapshot(run.pipeline), HostState(run.model)
    suspects = [{name} for name in reversed(names)] if len(names) > 1 else []
    for guilty in [*suspects, set(names)]:
        kept = [name for name in names if name not in guilty]
        try:
            run.effects, skipped = apply_plan(run.pipeline, _only(run.plan, kept))
            take_over_scale()
            loss = run.pipeline.step(batch)
        except Exception as error:
            undo_all(run.effects)
            if not kept:  # the plain loop fails too: the user's own error, with its own traceback
                _record(
                    run, dict.fromkeys(names, f"the step failed without it too: {_brief(error)}")
                )
                raise
            plain.restore()
            continue
        _forget(run, [*names])
        run.dropped += skipped
        _record(run, dict.fromkeys((name for name in names if name in guilty), _brief(failure)))
        trusted = _drop_what_did_not_run(run)
        _watch(run, host)
        return loss, trusted
    raise AssertionError("the last suspect is the whole plan, which returns or raises")


def _drop_what_did_not_run(run: "Run") -> bool:
    """A technique without effect is taken back; the step that was done stands as it is.

    Returns whether nothing had to be applied again.
    """
    asked = [(live.technique, live.effect.did_run()) for live in run.effects]
    idle = {technique: reason for technique, reason in asked if reason is not None}
    return not idle or _drop(run, idle)


def _drop(run: "Run", reasons: dict[str, str]) -> bool:
    """Take techniques back between two steps.

    What was applied on top of them is undone first and applied again, so that nothing is undone
    out of order. Returns whether nothing had to be applied again.
    """
    lowest = next(place for place, live in enumerate(run.effects) if live.technique in reasons)
    above = run.effects[lowest:]
    del run.effects[lowest:]
    again = [live.technique for live in above if live.technique not in reasons]
    take_over_scale = _keep_scale(run.pipeline)
    undo_all(above)
    effects, skipped = apply_plan(run.pipeline, _only(run.plan, again))
    take_over_scale()
    run.effects += effects
    run.dropped += skipped
    _record(run, reasons)
    return not effects


def _keep_scale(pipeline: Pipeline) -> Callable[[], None]:
    """The scale that an fp16 run has found, for the scaler that is made on applying it again."""
    found = pipeline.scaler.state_dict() if pipeline.scaler is not None else None

    def take_over() -> None:
        if found and pipeline.scaler is not None:
            pipeline.scaler.load_state_dict(found)

    return take_over


def _only(plan: Plan, names: Collection[str]) -> Plan:
    return plan.without(*(name for name in plan.parts if name not in names))


def _forget(run: "Run", names: Collection[str]) -> None:
    run.dropped = [each for each in run.dropped if each.technique not in names]


def _record(run: "Run", reasons: dict[str, str]) -> None:
    _forget(run, reasons)
    run.plan = run.plan.without(*reasons)
    run.dropped += [
        Applied(technique=name, outcome="fell_back", why=reasons[name]) for name in reasons
    ]


def _brief(error: Exception) -> str:
    first_line = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first_line}"[:300]
