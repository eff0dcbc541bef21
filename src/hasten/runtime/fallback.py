"""A technique that fails at its first real step is dropped, and training goes on without it.

The only place in the runtime with a broad except: a compiler, a kernel or a user's own technique
may raise anything. What the user's code raises by itself is raised to the user.
"""

from typing import TYPE_CHECKING, Any

from torch import Tensor

from hasten.records.applied import Applied
from hasten.runtime.apply import apply_plan, undo_all
from hasten.runtime.snapshot import Snapshot

if TYPE_CHECKING:
    from hasten.runtime.run import Run


def first_step(run: "Run", batch: Any) -> Tensor:
    """Run the first step; on failure redo it from restored state without the guilty technique.

    The guilty one is found by leaving out one technique at a time, the last applied first. If no
    single one is to blame all are dropped. A failure of the plain step is the user's own.
    """
    snapshot, carried = Snapshot(run.pipeline), run.carried_state
    try:
        loss = run.plain_step(batch)
    except Exception as error:  # noqa: BLE001  # whatever a technique raises, training goes on
        return _redo_without_guilty(run, batch, snapshot, carried, error)
    _drop_what_did_not_run(run)
    return loss


def _redo_without_guilty(
    run: "Run", batch: Any, snapshot: Snapshot, carried: Any, error: Exception
) -> Tensor:
    names = [live.technique for live in run.effects]
    suspects = [{name} for name in reversed(names)] if len(names) > 1 else []
    for dropped in [*suspects, set(names)]:
        snapshot.restore()  # before the undo: the state was taken under these effects
        run.carried_state = carried
        undo_all(run.effects)
        run.effects, _ = apply_plan(run.pipeline, run.plan.without(*dropped))
        try:
            loss = run.plain_step(batch)
        except Exception:
            if not run.effects:
                raise  # the plain loop fails too: the user's own error, with its own traceback
            continue
        for name in dropped:
            _record_fallback(run, name, _brief(error))
        return loss
    raise AssertionError("the last suspect is the whole plan, which returns or raises")


def _drop_what_did_not_run(run: "Run") -> None:
    """A technique without effect is taken back; the step that was done stands as it is."""
    for live in list(run.effects):
        reason = live.effect.did_run()
        if reason is not None:
            live.effect.undo()
            run.effects.remove(live)
            _record_fallback(run, live.technique, reason)


def _record_fallback(run: "Run", technique: str, why: str) -> None:
    run.plan = run.plan.without(technique)
    run.applied = [each for each in run.applied if each.technique != technique]
    run.applied.append(Applied(technique=technique, outcome="fell_back", why=why))


def _brief(error: Exception) -> str:
    first_line = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first_line}"[:300]
