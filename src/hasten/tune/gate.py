"""A figure of a task's speed to keep, and a later run held against it.

What is kept is a ratio: B's time beside A's, or beside the reference's, both in turns in the same
minute. A stored number of seconds would tell how busy the machine was.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from hasten import __version__
from hasten.errors import HastenError
from hasten.host.files import write_atomically
from hasten.measure.compare import Arm
from hasten.measure.gauge import gauge
from hasten.measure.lab import Lab
from hasten.measure.worker import WorkerFailure
from hasten.records.measurement import Memory
from hasten.records.record import to_json
from hasten.records.saved_bench import (
    REFERENCE,
    REFERENCE_ARM,
    SAVED_FORMAT,
    GateReport,
    SavedBench,
    is_saved,
    read_saved,
)
from hasten.records.verdict import Comparison, Decision, Verdict
from hasten.stats.change import change_since
from hasten.tune.arms import Arms, find_arms, plan_of

Tell = Callable[[str], None]
SAVED_PAIRS = 6
"""More than later runs take: what the saved figure is off by, all of them are off by."""
LOOKS = (3, 4, 5)
"""Pairs of a later run after which it is asked whether it is decided."""
VERDICTS: dict[Decision, Verdict] = {
    "faster": "proven",
    "same": "proven",
    "slower": "refuted",
    "undecided": "not_proven",
}


def save(task: str, names: Sequence[str], path: Path, *, seed: int, tell: Tell) -> SavedBench:
    """Measure and keep. One name is held against the reference; none is the naive training."""
    _refuse_to_overwrite(path)
    a, b = _two(names or ["naive"])
    with Lab(task, seed) as lab:
        arms = find_arms(lab, a, b, tell)
        measured = [_pair(lab, arms, number, SAVED_PAIRS, tell) for number in _upto(SAVED_PAIRS)]
    pairs, memories = zip(*measured, strict=True)
    saved = SavedBench(
        format=SAVED_FORMAT,
        reference=REFERENCE,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        hasten=__version__,
        task=task,
        a=a,
        b=b,
        plan_a=plan_of(arms.a),
        plan_b=plan_of(arms.b),
        seed=seed,
        environment=arms.described.environment,
        pairs=pairs,
        b_memory=memories[-1],
    )
    write_atomically(path, to_json(saved))
    return saved


def against(task: str, names: Sequence[str], path: Path, *, seed: int, tell: Tell) -> GateReport:
    """Measure and hold against what was kept. Without names the arms are those of the file."""
    saved = read_saved(path)
    _refuse_another_question(saved, task, names, path, seed)
    with Lab(task, seed) as lab:
        arms = find_arms(lab, saved.a, saved.b, tell)
        _refuse_other_conditions(saved, arms, path)
        pairs: list[Comparison] = []
        for number in _upto(LOOKS[-1]):
            pair, memory = _pair(lab, arms, number, LOOKS[-1], tell)
            pairs.append(pair)
            if number >= LOOKS[0]:
                change = change_since(saved.pairs, pairs)
                if change.decision != "undecided":
                    break
    return GateReport(
        task=task,
        a=saved.a,
        b=saved.b,
        file=str(path),
        verdict=VERDICTS[change.decision],
        regression=change.decision == "slower",
        change=change,
        environment=arms.described.environment,
        pairs=tuple(pairs),
        saved_memory=saved.b_memory,
        b_memory=memory,
    )


def _pair(lab: Lab, arms: Arms, number: int, most: int, tell: Tell) -> tuple[Comparison, Memory]:
    """One pair of fresh processes, and the peak memory of B's. Whatever did not run as it should
    is an error: a gate that measured something else must not pass."""
    tell(f"measuring in fresh processes ({number}, at most {most})")
    try:
        a, b = lab.arms(arms.a, arms.b)
        _refuse_lost(a, b)
        pair = gauge(a, b, seed=2000 + number)
        a.read()
        memory = b.read()
        _refuse_lost(a, b)
        return pair, memory
    except WorkerFailure as failure:
        raise failure.as_error() from failure
    finally:
        lab.close_workers()


def _refuse_lost(*arms: Arm) -> None:
    for arm in arms:
        lost = arm.fell_back()
        if lost is not None:
            raise HastenError(
                f"{lost}; there is nothing to compare.", fix="Choose an arm that runs here."
            )


def _two(names: Sequence[str]) -> tuple[str, str]:
    return (REFERENCE_ARM, names[0]) if len(names) == 1 else (names[0], names[1])


def _upto(count: int) -> range:
    return range(1, count + 1)


def _refuse_to_overwrite(path: Path) -> None:
    """Before a minute of measuring: a folder that is not there, a file that is something else."""
    if not path.parent.is_dir():
        raise HastenError(f"There is no folder {str(path.parent)!r}.", fix="Make it first.")
    if path.exists() and not (path.is_file() and is_saved(path.read_bytes())):
        raise HastenError(
            f"{path} is there, and is no saved bench; it is left alone.", fix="Name another file."
        )


def _refuse_another_question(
    saved: SavedBench, task: str, names: Sequence[str], path: Path, seed: int
) -> None:
    asked = _two(names) if names else (saved.a, saved.b)
    for what, then, now in (
        ("task", saved.task, task),
        ("arms", f"{saved.a} {saved.b}", " ".join(asked)),
        ("seed", saved.seed, seed),
    ):
        if then != now:
            raise HastenError(
                f"{path} was saved for the {what} {then}, and this is {now}.",
                fix="Compare like with like, or save this one to a file of its own.",
            )


def _refuse_other_conditions(saved: SavedBench, arms: Arms, path: Path) -> None:
    differences = arms.described.environment.differences(saved.environment)
    if differences:
        raise HastenError(
            f"{path} was saved on another machine ({'; '.join(differences)}).",
            fix="Save it anew here, or compare two checkouts: hasten bench OLD_TASK naive NEW_TASK",
        )
    for name, then, now in (
        (saved.a, saved.plan_a, plan_of(arms.a)),
        (saved.b, saved.plan_b, plan_of(arms.b)),
    ):
        if then != now:
            raise HastenError(
                f"{name} was {then} when {path} was saved, and is {now} now.",
                fix="Save it anew, before the change that is to be judged.",
            )
