"""A technique that fails at its first real step is dropped, and training goes on without it.

The only place in the runtime with a broad except: a compiler, a kernel or a user's own technique
may raise anything. What the user's code raises by itself is raised to the user.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from torch import Tensor

from hasten.records.applied import Applied
from hasten.records.plan import Plan
from hasten.runtime.apply import apply_plan, undo_all
from hasten.runtime.snapshot import Snapshot
from hasten.task import batch as batches

if TYPE_CHECKING:
    from hasten.runtime.run import Run


def first_step(run: "Run", batch: Any) -> tuple[Tensor, bool]:
    """Run the first step; on failure redo it from restored state without the guilty technique.

    The guilty one is found by leaving out one technique at a time, the last applied first. If no
    single one is to blame all are dropped. A failure of the plain step is the user's own.
    Returns the loss, and whether all that is applied now has shown that it runs.
    """
    snapshot, carried = Snapshot(run.pipeline), batches.clone(run.carried_state)
    try:
        loss = run.plain_step(batch)
    except Exception as error:  # noqa: BLE001  # whatever a technique raises, training goes on
        failure = error
    else:
        return loss, _drop_what_did_not_run(run)
    # Not inside the handler: what the user's code raises now has nothing of ours behind it.
    snapshot.restore()  # before the undo: the state was taken under these effects
    run.carried_state = carried
    return _redo_without_guilty(run, batch, failure)


def _redo_without_guilty(run: "Run", batch: Any, failure: Exception) -> tuple[Tensor, bool]:
    names = [live.technique for live in run.effects]
    undo_all(run.effects)
    plain, carried = Snapshot(run.pipeline), run.carried_state
    suspects = [{name} for name in reversed(names)] if len(names) > 1 else []
    for dropped in [*suspects, set(names)]:
        kept = [name for name in names if name not in dropped]
        run.carried_state = batches.clone(carried)
        try:
            run.effects, applied = apply_plan(run.pipeline, _only(run.plan, kept))
            loss = run.plain_step(batch)
        except Exception as error:
            undo_all(run.effects)
            if not kept:  # the plain loop fails too: the user's own error, with its own traceback
                _record(
                    run, dict.fromkeys(names, f"the step failed without it too: {_brief(error)}")
                )
                raise
            plain.restore()
            continue
        _replace(run, applied)
        _record(run, dict.fromkeys((name for name in names if name in dropped), _brief(failure)))
        return loss, _drop_what_did_not_run(run)
    raise AssertionError("the last suspect is the whole plan, which returns or raises")


def _drop_what_did_not_run(run: "Run") -> bool:
    """A technique without effect is taken back; the step that was done stands as it is.

    What was applied on top of it is undone first and applied again, so that nothing is undone out
    of order. Returns whether nothing had to be applied again.
    """
    asked = [(live.technique, live.effect.did_run()) for live in run.effects]
    idle = {technique: reason for technique, reason in asked if reason is not None}
    if not idle:
        return True
    lowest = next(place for place, live in enumerate(run.effects) if live.technique in idle)
    above = run.effects[lowest:]
    del run.effects[lowest:]
    again = [live.technique for live in above if live.technique not in idle]
    undo_all(above)
    effects, applied = apply_plan(run.pipeline, _only(run.plan, again))
    run.effects += effects
    _replace(run, applied)
    _record(run, idle)
    return not effects


def _only(plan: Plan, names: Collection[str]) -> Plan:
    return plan.without(*(name for name in plan.parts if name not in names))


def _replace(run: "Run", applied: list[Applied]) -> None:
    """What was applied again may have turned out otherwise."""
    names = {each.technique for each in applied}
    run.applied = [each for each in run.applied if each.technique not in names] + applied


def _record(run: "Run", reasons: dict[str, str]) -> None:
    run.plan = run.plan.without(*reasons)
    fallen = [Applied(technique=name, outcome="fell_back", why=reasons[name]) for name in reasons]
    _replace(run, fallen)


def _brief(error: Exception) -> str:
    first_line = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first_line}"[:300]
