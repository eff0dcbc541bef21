"""One line of JSON for each thing that a tuning learns, flushed at once: one that is stopped or
killed goes on from there when it is begun again."""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, get_args

import msgspec

from hasten.errors import HastenError
from hasten.host.lock import FileLock
from hasten.records.plan import Plan
from hasten.records.recipe import Evidence
from hasten.records.record import Record, from_builtins
from hasten.records.trial import Trial
from hasten.records.tuning import (
    Diagnosed,
    PairTrained,
    PartWeighed,
    PlanJudged,
    Spent,
    Subject,
    Worth,
)
from hasten.records.verdict import NumericsClaim
from hasten.tune.files import refuse_unusable, writing_into
from hasten.tune.spending import Stopwatch

JOURNAL = "journal.jsonl"
LOCK = "tune.lock"
SUBJECT, SPENT, ENDED = "subject", "spent", "ended"

Lesson = Trial | Diagnosed | PartWeighed | PairTrained | PlanJudged


@dataclass
class Learnt:
    """By an earlier tuning of the same subject, and by this one where it may ask again."""

    trials: dict[str, Trial] = field(default_factory=dict)
    """By their keys."""
    diagnosed: dict[str, Diagnosed] = field(default_factory=dict)
    """By their plans."""
    weighed: list[PartWeighed] = field(default_factory=list)
    trained: list[PairTrained] = field(default_factory=list)
    judged: list[PlanJudged] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)

    def go_on_from(self, evidence: Evidence) -> None:
        """What a tuning before that had learnt, which came to its end."""
        for trial in evidence.trials:
            self.trials.setdefault(trial.key(), trial)
        for diagnosed in evidence.diagnosed:
            if not diagnosed.disturbed:
                self.diagnosed.setdefault(str(diagnosed.plan.parts), diagnosed)

    def take(self, lesson: Lesson) -> None:
        match lesson:
            case Trial():
                self.trials[lesson.key()] = lesson
            case Diagnosed():
                self.diagnosed[str(lesson.plan.parts)] = lesson
            case PartWeighed():
                self.weighed.append(lesson)
            case PairTrained():
                self.trained.append(lesson)
            case PlanJudged():
                self.judged.append(lesson)

    def is_of_use(self) -> bool:
        """Whether there is something that need not be done again; what was spent is none."""
        return replace(self, spent=Spent()) != Learnt()

    def tried(self) -> int:
        return sum(each.tells() for each in self.trials.values())

    def worth_of(self, plan: Plan) -> dict[str, Worth]:
        """Of its parts, as far as they were weighed."""
        measured = [each.worth for each in self.weighed if each.plan == plan]
        return {each.technique: each for each in measured if not each.failure}

    def pairs_of(self, plan: Plan) -> list[PairTrained]:
        """In the order of their seeds."""
        return [each for each in self.trained if each.plan == plan]

    def claim_of(self, plan: Plan) -> NumericsClaim | None:
        """What was decided; else it is asked again, from the seeds that were trained."""
        decided = [each for each in self.judged if each.claim.verdict != "not_proven"]
        return next((each.claim for each in decided if each.plan == plan), None)


class Journal:
    """Use with ``with``. The folder is made with the first line, so that bad input writes nothing;
    from then on it is nobody else's to write into."""

    def __init__(self, folder: Path, watch: Stopwatch) -> None:
        """Each line says what was spent up to it, by ``watch``."""
        refuse_unusable(folder)
        self.folder, self._watch = folder, watch
        self._begun = False
        self._lock = FileLock(folder / LOCK, passing=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._lock.release()

    def begin(self, subject: Subject) -> Learnt:
        """What is known already. A journal of another subject, or one that has come to its end, is
        begun anew."""
        self._take_folder()
        lines = _whole_lines(self.folder / JOURNAL)
        learnt = _learnt([each for _, each in lines], subject)
        if learnt is None:
            self.note(subject)
            return Learnt()
        with writing_into(self.folder):
            os.truncate(self.folder / JOURNAL, lines[-1][0])  # what was cut off would spoil more
        self._watch.go_on_from(learnt.spent)
        self._begun = True
        return learnt

    def _take_folder(self) -> None:
        with writing_into(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            taken = self._lock.acquire(wait=False)
        if not taken:
            raise HastenError(
                f"--out {self.folder}: another hasten tune is at work there.",
                fix="Wait until it has ended, or name another folder.",
            )

    def note(self, record: Record) -> None:
        self._write(type(record).__name__.lower(), record)

    def end(self) -> None:
        self._write(ENDED, True)

    def _write(self, name: str, value: object) -> None:
        line = msgspec.json.encode({name: value, SPENT: self._watch.spent()})
        with writing_into(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / JOURNAL).open("ab" if self._begun else "wb") as file:
                file.write(line + b"\n")
                file.flush()
                os.fsync(file.fileno())
        self._begun = True


def has_learnt(folder: Path) -> bool:
    """Whether a tuning that was stopped there has left more than what it was of."""
    lines = _whole_lines(folder / JOURNAL)
    return len(lines) > 1 and not any(ENDED in each for _, each in lines)


def _whole_lines(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Each with the byte behind it. The last one may have been cut off, and is then left out."""
    try:
        content = path.read_bytes()
    except OSError:
        return []
    found, end = [], 0
    for line in content.splitlines(keepends=True):
        end += len(line)
        try:
            read = msgspec.json.decode(line)
        except msgspec.DecodeError:
            break
        if not isinstance(read, dict) or not line.endswith(b"\n"):
            break
        found.append((end, read))
    return found


def _learnt(lines: list[dict[str, Any]], subject: Subject) -> Learnt | None:
    """None where they are of another subject or version, or nobody's, or came to an end."""
    if not lines or SUBJECT not in lines[0] or any(ENDED in each for each in lines):
        return None
    learnt = Learnt()
    try:
        if from_builtins(lines[0][SUBJECT], Subject, where=JOURNAL) != subject:
            return None
        for line in lines:
            for kind in get_args(Lesson):
                if kind.__name__.lower() in line:
                    learnt.take(from_builtins(line[kind.__name__.lower()], kind, where=JOURNAL))
        spent = from_builtins(lines[-1].get(SPENT, {}), Spent, where=JOURNAL)
    except HastenError:
        return None
    return replace(learnt, spent=spent)
