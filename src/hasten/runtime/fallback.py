"""A technique that fails is dropped, and training goes on without it from restored state.

The only place in the runtime with a broad except: a compiler, a kernel or a user's own technique
may raise anything, at the first step or at any later one. What the user's code raises by itself is
raised to the user.
"""

import traceback
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar

from torch import Tensor

from hasten.errors import in_a_line
from hasten.records.applied import OUT_OF_MEMORY, Applied
from hasten.records.plan import Plan
from hasten.runtime.apply import apply_plan, loading, undo_all
from hasten.runtime.memory import ran_out_of_memory
from hasten.runtime.rewind import Rewind
from hasten.runtime.snapshot import Snapshot
from hasten.task.pipeline import Pipeline
from hasten.task.seed import host_random_state, same_host_random_state
from hasten.techniques.technique import Stage

if TYPE_CHECKING:
    from hasten.runtime.run import Run

T = TypeVar("T")
HICCUPS = 3
"""Failures that did not come again, before one technique is left out all the same."""


def first_step(run: "Run", batch: Any) -> Tensor:
    """Run the first step; on failure redo it from restored state without the guilty technique.

    If the plain step fails too the error is the user's own: it is raised as the plain loop would
    raise it, and the plan stays. Otherwise the guilty technique is found by leaving out one at a
    time, the last applied first; if no single one is to blame all are dropped.
    """
    snapshot, host = Snapshot(run.pipeline), host_random_state()
    try:
        loss = run.pipeline.step(batch)
    except Exception as error:  # noqa: BLE001  # whatever a technique raises, training goes on
        failure = error
    else:
        run.trusted = _drop_what_did_not_run(run)
        _watch(run, host)
        return loss
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
        failure.add_note("Hasten could not redo this step: its update had begun.")
        raise failure
    return _redo_without_guilty(run, batch, failure)


def load(run: "Run", loader: Any, work: Callable[[], T], instead: Callable[[], T]) -> T:
    """Do something with a loader. Where that fails all techniques that load are dropped, and it is
    done with the loader that is left; ``loader`` may have been dropped before."""
    try:
        return work()
    except StopIteration:
        raise
    except Exception as error:
        failure, suspects = error, loading(run.effects)
        if not suspects and run.pipeline.loader is loader:
            raise
    if suspects:
        _drop(run, {live.technique: _brief(failure) for live in suspects})
    return instead()  # what is raised now is the user's own


def _watch(run: "Run", host_before: dict[str, Any]) -> None:
    draws = not same_host_random_state(host_before)
    run.rewind = Rewind(run.eager, draws_on_host=draws)
    run.eager.before = run.rewind.note


def _redo_without_guilty(run: "Run", batch: Any, failure: Exception) -> Tensor:
    _let_go(failure)
    # The size of a batch is the training's, and this one has it already: it is never left out.
    stay = sum(live.stage is Stage.BATCH for live in run.effects)
    names = [live.technique for live in run.effects[stay:]]
    take_over_scale = _keep_scale(run.pipeline)
    _undo_from(run, stay)
    plain, host = Snapshot(run.pipeline), host_random_state()
    _try_plain(run, batch, names, take_over_scale)
    for guilty in _suspects(run, names):
        plain.restore()
        kept = [name for name in names if name not in guilty]
        try:
            effects, skipped = apply_plan(run.pipeline, _only(run.plan, kept))
            run.effects += effects
            take_over_scale()
            loss = run.pipeline.step(batch)
        except Exception as error:  # noqa: BLE001  # as above
            _let_go(error)
            _undo_from(run, stay)
            continue
        if not guilty:
            run.hiccups.append(_brief(failure))
        _forget(run, names)
        run.dropped += skipped
        _record(run, dict.fromkeys((name for name in names if name in guilty), _brief(failure)))
        run.trusted = _drop_what_did_not_run(run)
        _watch(run, host)
        return loss
    raise AssertionError("the last suspect is the whole plan, without which the step was tried")


def _try_plain(
    run: "Run", batch: Any, names: list[str], take_over_scale: Callable[[], None]
) -> None:
    """Is it the user's own error? Then the plan is not to blame, and stays."""
    try:
        run.pipeline.step(batch)
    except Exception:
        _forget(run, names)
        _apply_again(run, names, take_over_scale)
        run.trusted = False
        raise


def _apply_again(run: "Run", names: list[str], take_over_scale: Callable[[], None]) -> bool:
    """Between two steps. Returns whether there was nothing to apply, or nothing could be."""
    try:
        effects, skipped = apply_plan(run.pipeline, _only(run.plan, names))
    except Exception as error:  # noqa: BLE001  # as above; the step that was done stands
        _record(run, dict.fromkeys(names, _brief(error)))
        return True
    take_over_scale()
    run.effects += effects
    run.dropped += skipped
    return not effects


def _suspects(run: "Run", names: list[str]) -> list[set[str]]:
    """Whom to leave out, in order; at first nobody, where all have worked before."""
    nobody: list[set[str]] = [set()] if run.trusted and len(run.hiccups) < HICCUPS else []
    one_by_one = [{name} for name in reversed(names)] if len(names) > 1 else []
    return [*nobody, *one_by_one, set(names)]


def _let_go(error: BaseException | None) -> None:
    """Of the failed step's activations, which the frames of its errors hold."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


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
    above = [live.technique for live in run.effects[lowest:]]
    again = [name for name in above if name not in reasons]
    take_over_scale = _keep_scale(run.pipeline)
    _undo_from(run, lowest)
    _record(run, reasons)
    return _apply_again(run, again, take_over_scale)


def _undo_from(run: "Run", place: int) -> None:
    """Of the effects, those from this place on."""
    above = run.effects[place:]
    del run.effects[place:]
    undo_all(above)


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
    kind = OUT_OF_MEMORY if ran_out_of_memory(error) else type(error).__name__
    return f"{kind}: {in_a_line(str(error))}"[:300]
