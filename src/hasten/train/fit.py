"""A training by one call: build the task, apply the plan, go on from a checkpoint, train, leave."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from hasten.checkpoint.codec import decode as decode_tree
from hasten.checkpoint.folders import Saved, find_folders
from hasten.checkpoint.store import Store
from hasten.config import PerformanceConfig
from hasten.errors import HastenError
from hasten.host.environment import read_environment
from hasten.records.checkpoint import Position
from hasten.records.plan import NAIVE, Plan
from hasten.records.training import TrainingSummary
from hasten.runtime.evaluate import refuse_empty
from hasten.runtime.loading import Epoch
from hasten.runtime.run import Run
from hasten.task.load import build_task, load_factory, user_error
from hasten.task.pipeline import Pipeline
from hasten.task.seed import seed_everything
from hasten.task.task import Task
from hasten.task.traits import read_traits
from hasten.train.deterministic import deterministic as deterministic_mode
from hasten.train.every import Every
from hasten.train.log import EVENTS, EventLog
from hasten.train.loop import Loop
from hasten.train.resume import go_on, refuse_another_task, refuse_another_training
from hasten.train.saving import Saver
from hasten.train.signals import StopRequest
from hasten.train.sinks import Sink, Sinks
from hasten.train.state import restore
from hasten.train.wanted import EACH_EPOCH, Wanted

START = Position(step=0, epoch=0, batches=0)


def fit(
    task: Task | str,
    plan: Plan | PerformanceConfig = NAIVE,
    *,
    epochs: int | None = None,
    steps: int | None = None,
    seed: int | None = None,
    checkpoint_dir: Path | str | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    evaluate_every: Every | str = EACH_EPOCH,
    log_every: int = 50,
    deterministic: bool = False,
    sinks: Sequence[Sink] = (),
) -> TrainingSummary:
    """Train ``task`` with ``plan``, and say what became of it.

    ``epochs`` and ``steps`` are totals, also of a training that is resumed; without either it is
    one epoch. Into ``checkpoint_dir`` go checkpoints, every ``checkpoint_every`` steps or every
    ten minutes and at the end, and a log of events. SIGTERM and Ctrl-C finish the step and save;
    then the program's own handler is called, if it has one, and else it ends as it would have, by
    SystemExit(143) or KeyboardInterrupt. Before the first step they do so at once.
    """
    wanted = Wanted(
        task=task,
        plan=plan,
        epochs=epochs,
        steps=steps,
        seed=seed,
        checkpoint_dir=None if checkpoint_dir is None else Path(checkpoint_dir),
        checkpoint_every=checkpoint_every,
        resume=resume,
        evaluate_every=Every.parse(evaluate_every)
        if isinstance(evaluate_every, str)
        else evaluate_every,
        log_every=log_every,
        deterministic=deterministic,
    )
    with StopRequest() as stop:
        summary = train(wanted, stop, sinks)
    stop.leave()
    return summary


def train(wanted: Wanted, stop: StopRequest, sinks: Sequence[Sink] = ()) -> TrainingSummary:
    """The same, but that it returns when ``stop`` was asked for."""
    with ExitStack() as cleanup:
        cleanup.enter_context(deterministic_mode(wanted.deterministic))
        name = wanted.task if isinstance(wanted.task, str) else None
        store, saved = _open(wanted, name, cleanup)
        seed = _seed(wanted, saved)
        task = _build(wanted.task, seed)
        refuse_empty(task)
        pipeline = _pipeline(task, name)
        plan = wanted.plan
        if isinstance(plan, PerformanceConfig):
            plan = plan.resolve(read_environment(), read_traits(pipeline))
        run = Run(pipeline, plan)
        cleanup.callback(run.undo)
        position, path, epoch = START, None, None
        notes: list[str] = []
        if saved is not None:
            position, path = saved.manifest.position, saved.path
            epoch, notes = _take_over(run, saved, plan)
            saved = None  # as large as the training itself
        saver = None
        if store is not None:
            saver = Saver(
                run,
                store,
                every=wanted.checkpoint_every,
                task=name,
                seed=seed,
                plan=plan.parts,
                gone_on_from=path,
                from_step=position.step,
            )
            cleanup.callback(saver.close)
            sinks = (EventLog(store.folder / EVENTS), *sinks)
        loop = Loop(wanted, name, task, run, saver, Sinks(sinks), stop)
        return loop.train(position, epoch, notes)


def _open(
    wanted: Wanted, name: str | None, cleanup: ExitStack
) -> tuple[Store | None, Saved | None]:
    """The folder, and what is gone on from. Whatever speaks against it is said before any work."""
    if wanted.checkpoint_dir is None:
        return None, None
    store = Store(wanted.checkpoint_dir)
    cleanup.callback(store.close)
    saved = None
    if wanted.resume:
        if store.folder.is_dir():
            store.hold()  # whoever trains there may have nothing to read yet
        saved = store.read()
        refuse_another_task(saved.manifest, name, saved.path)
    elif steps := [each.step for each in find_folders(store.folder) if each.has_manifest]:
        raise HastenError(
            f"{wanted.checkpoint_dir} holds a training already, up to step {max(steps)}.",
            fix="Go on with it (--resume, resume=True), or name another folder.",
        )
    return store.open(), saved


def _pipeline(task: Task, name: str | None) -> Pipeline:
    try:
        return Pipeline.from_task(task)
    except (Exception, SystemExit) as error:
        if name is None or isinstance(error, HastenError):
            raise
        raise user_error(f"{name} cannot be trained", error) from error


def _take_over(run: Run, saved: Saved, plan: Plan) -> tuple[Epoch | None, list[str]]:
    """The epoch to go on with, and what there is to say."""
    refuse_another_training(saved.manifest, run, saved.path)
    tree = decode_tree(saved.skeleton, saved.tensors)
    restore(run, saved.model, tree)
    epoch, words = go_on(run, saved.manifest, tree, saved.path)
    return epoch, _notes_of(saved, plan, words)


def _notes_of(saved: Saved, plan: Plan, words: str | None) -> list[str]:
    notes = list(saved.complaints)
    if notes:
        notes.append(f"training goes on from step {saved.manifest.position.step}")
    if saved.manifest.plan != plan.parts:
        before = Plan(parts=saved.manifest.plan)
        notes.append(f"the checkpoint is of a training by another plan: {before}")
    return [*notes, words] if words else notes


def _seed(wanted: Wanted, saved: Saved | None) -> int:
    if saved is None:
        return wanted.seed or 0
    if wanted.seed not in (None, saved.manifest.seed):
        raise HastenError(
            f"seed={wanted.seed} is not the {saved.manifest.seed} that {saved.path} began with.",
            fix="Leave the seed out; a training goes on with its own.",
        )
    return saved.manifest.seed


def _build(task: Task | str, seed: int) -> Task:
    seed_everything(seed)  # a script may make its data where it is imported
    if isinstance(task, str):
        return build_task(load_factory(task), task, seed)
    return task
