"""What a stopped tuning has learnt is known to the next one of the same subject, to no other."""

from pathlib import Path

import msgspec
import pytest

from hasten.errors import HastenError
from hasten.records.plan import Plan
from hasten.records.tuning import PairTrained, PartWeighed, PlanJudged, Spent, Subject, Worth
from hasten.tune.journal import JOURNAL, LOCK, Journal, Learnt, has_learnt
from hasten.tune.spending import Stopwatch
from specimens import DIAGNOSED, ENVIRONMENT, NUMERICS, PROVEN, TRAITS, make_trial
from tunings import PARITY

SUBJECT = Subject(
    task="train.py:make_task",
    seed=0,
    hasten="0.1.0",
    environment=ENVIRONMENT,
    traits=TRAITS,
    sources={"train.py": "d" * 64},
)
TRIAL = make_trial("batched_loader")
LATER = msgspec.structs.replace(DIAGNOSED, plan=Plan(parts={"batched_loader": {}}))


def begun(folder: Path, subject: Subject = SUBJECT, watch: Stopwatch | None = None) -> Learnt:
    with Journal(folder, watch or Stopwatch()) as journal:
        return journal.begin(subject)


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    with Journal(tmp_path, Stopwatch()) as journal:
        assert journal.begin(SUBJECT) == Learnt()
        for record in (DIAGNOSED, TRIAL, LATER):
            journal.note(record)
    return tmp_path


def test_the_same_subject_knows_it_all_and_goes_on(stopped: Path) -> None:
    with Journal(stopped, Stopwatch()) as journal:
        learnt = journal.begin(SUBJECT)
        assert learnt.is_of_use()
        assert learnt.trials == {TRIAL.key(): TRIAL}
        assert list(learnt.diagnosed.values()) == [DIAGNOSED, LATER]
        other = make_trial("compile", "not_faster")
        journal.note(other)
    assert set(begun(stopped).trials) == {TRIAL.key(), other.key()}


def test_what_an_ended_tuning_has_learnt_is_known_beside_what_a_stopped_one_has(
    stopped: Path,
) -> None:
    late, untried = make_trial("compile", "out_of_time"), make_trial("attention", "not_tried")
    ended = msgspec.structs.replace(PROVEN, trials=(TRIAL, late, untried))
    ran = make_trial("compile", "not_faster")
    with Journal(stopped, Stopwatch()) as journal:
        journal.begin(SUBJECT)
        journal.note(ran)
    learnt = begun(stopped)
    learnt.go_on_from(ended)
    assert learnt.trials[late.key()] == ran, "it was run since"
    assert learnt.trials.keys() == {TRIAL.key(), ran.key(), untried.key()}
    assert learnt.tried() == 2
    assert list(learnt.diagnosed.values()) == [DIAGNOSED, LATER]


def test_what_settling_has_learnt_is_known_by_its_plan(stopped: Path) -> None:
    plan = LATER.plan
    worth = Worth(technique="batched_loader", ratio=1.5, low=1.4, high=1.6)
    failed = msgspec.structs.replace(worth, technique="compile", failure="It ended.")
    pairs = [PairTrained(plan=plan, steps=PARITY.steps, pair=each) for each in PARITY.pairs]
    with Journal(stopped, Stopwatch()) as journal:
        journal.begin(SUBJECT)
        weighed = (PartWeighed(plan=plan, worth=each) for each in (worth, failed))
        for record in (*weighed, *pairs):
            journal.note(record)
        journal.note(PlanJudged(plan=plan, claim=NUMERICS))
    learnt = begun(stopped)
    assert learnt.worth_of(plan) == {"batched_loader": worth}, "one that failed is weighed again"
    assert learnt.pairs_of(plan) == pairs
    assert learnt.claim_of(plan) == NUMERICS
    assert (learnt.worth_of(Plan()), learnt.pairs_of(Plan()), learnt.claim_of(Plan())) == (
        {},
        [],
        None,
    )


def test_what_could_not_be_decided_is_asked_again(stopped: Path) -> None:
    undecided = msgspec.structs.replace(NUMERICS, verdict="not_proven")
    with Journal(stopped, Stopwatch()) as journal:
        journal.begin(SUBJECT)
        journal.note(PlanJudged(plan=LATER.plan, claim=undecided))
    assert begun(stopped).claim_of(LATER.plan) is None
    with Journal(stopped, Stopwatch()) as journal:
        journal.begin(SUBJECT)
        journal.note(PlanJudged(plan=LATER.plan, claim=NUMERICS))
    assert begun(stopped).claim_of(LATER.plan) == NUMERICS


def test_one_that_was_stopped_before_it_learnt_anything_is_of_no_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("hasten.tune.spending.time.monotonic", lambda: now)
    watch = Stopwatch()
    with watch.over("measuring_s"):
        now = 30.0
        begun(tmp_path, SUBJECT, watch)
    learnt = begun(tmp_path)
    assert learnt.spent == Spent(measuring_s=30.0)
    assert not learnt.is_of_use()


def test_what_a_stopped_tuning_had_spent_is_added_to_what_the_next_one_spends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("hasten.tune.spending.time.monotonic", lambda: now)
    watch = Stopwatch()
    with Journal(tmp_path, watch) as journal:
        journal.begin(SUBJECT)
        with watch.over("search_s"):
            now = 100.0
            journal.note(TRIAL)  # and is killed later, before it notes another
            now = 170.0
    again = Stopwatch()
    assert begun(tmp_path, SUBJECT, again).spent == Spent(search_s=100.0)
    with again.over("search_s"):
        now = 190.0
    assert again.spent() == Spent(search_s=120.0)


@pytest.mark.parametrize(
    "change",
    [
        {"task": "other.py:make_task"},
        {"seed": 1},
        {"hasten": "0.2.0"},
        {"sources": {"train.py": "e" * 64}},
        {"environment": msgspec.structs.replace(ENVIRONMENT, cpu="another")},
    ],
)
def test_another_subject_begins_anew(stopped: Path, change: dict[str, object]) -> None:
    other = msgspec.structs.replace(SUBJECT, **change)
    assert begun(stopped, other) == Learnt()
    assert len((stopped / JOURNAL).read_text().splitlines()) == 1


def test_one_that_came_to_its_end_is_not_gone_on_with(stopped: Path) -> None:
    with Journal(stopped, Stopwatch()) as journal:
        journal.begin(SUBJECT)
        journal.end()
    assert begun(stopped) == Learnt()


def test_a_line_that_was_cut_off_is_not_known(stopped: Path) -> None:
    path = stopped / JOURNAL
    content = path.read_bytes()
    path.write_bytes(content[:-40])
    learnt = begun(stopped)
    assert list(learnt.diagnosed.values()) == [DIAGNOSED]
    assert learnt.trials == {TRIAL.key(): TRIAL}
    with Journal(stopped, Stopwatch()) as journal:
        journal.begin(SUBJECT)
        journal.note(LATER)
    assert list(begun(stopped).diagnosed.values()) == [
        DIAGNOSED,
        LATER,
    ]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[]\n", b'{"subject": 3}\n', b"{}\n" * 3])
def test_what_is_no_journal_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / JOURNAL).write_bytes(content)
    assert begun(tmp_path) == Learnt()


def test_lines_of_another_version_are_not_known(stopped: Path) -> None:
    path = stopped / JOURNAL
    path.write_text(path.read_text().replace('"outcome"', '"came_to"'))
    assert begun(stopped) == Learnt()


def test_a_folder_that_another_is_at_work_in_is_refused_and_left_as_it_is(stopped: Path) -> None:
    with Journal(stopped, Stopwatch()) as journal:
        journal.begin(SUBJECT)
        before = (stopped / JOURNAL).read_bytes()
        with pytest.raises(HastenError, match="another hasten tune is at work there") as refused:
            begun(stopped, msgspec.structs.replace(SUBJECT, task="other.py:make_task"))
        assert "name another folder" in refused.value.fix
        assert (stopped / JOURNAL).read_bytes() == before
        journal.note(TRIAL)
    assert begun(stopped).is_of_use()
    assert not (stopped / LOCK).exists(), "nothing is left of it"


def test_only_what_another_run_can_go_on_from_counts_as_learnt(stopped: Path) -> None:
    assert has_learnt(stopped)
    with Journal(stopped, Stopwatch()) as journal:
        journal.begin(SUBJECT)
        journal.end()
    assert not has_learnt(stopped), "it came to its end"
    begun(stopped)
    assert not has_learnt(stopped), "that has only begun"
    assert not has_learnt(stopped / "elsewhere")
