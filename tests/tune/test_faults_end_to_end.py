"""What goes wrong in a tuning, from its beginning to its recipe, with real worker processes."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from hasten.errors import HastenError
from hasten.flow import tune
from hasten.measure.lab import Lab
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.profile import ProfileParts
from hasten.records.progress import Doing
from hasten.records.recipe import read_recipe
from hasten.records.trial import UNTRIED, Trial
from hasten.records.tuning import Subject
from hasten.tune import tuning
from hasten.tune.files import write_outcome
from hasten.tune.search import Search
from quick import shorten
from specimens import make_trial

TASKS = Path(__file__).parents[1] / "tasks"
HANGING = ("prepares_for_ever", "hangs_with_the_lock")
HANG_S = 5.0


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most trainings here sleep by a pretended clock: what they gain shows at once."""
    shorten(monkeypatch.setattr)


def limit_what_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else, which a busy machine may stretch."""
    really = Search._try

    def limited(self: Search, candidate: Any, *rest: Any) -> Trial:
        limit_s = HANG_S if candidate.technique in HANGING else 120.0
        monkeypatch.setattr(Search, "_warm_limit_s", lambda self, candidate: limit_s)
        return really(self, candidate, *rest)

    monkeypatch.setattr(Search, "_try", limited)


def test_whatever_fails_in_a_trial_is_a_row_and_what_is_right_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faults 7, 8, 10, 11 and 31: every one of these is several times faster, but for its fault."""
    limit_what_hangs(monkeypatch)
    before = set(psutil.Process().children(recursive=True))
    evidence = tune(f"{TASKS}/sleeping_badly.py:sleeps", out=tmp_path / "out", minutes=5)
    rows = {each.candidate.technique: each for each in evidence.trials}
    assert {name: rows[name].outcome for name in (*WRONG, "wakes")} == {**WRONG, "wakes": "kept"}
    for name, words in SAID.items():
        assert words in rows[name].why, rows[name]
    for name in HANGING:
        assert "sleeping_badly.py" in rows[name].detail, "where it stood"
    for name in ("eats_memory", "killed", *HANGING):
        assert rows[name].comparison is None, "nothing that was measured before is taken for it"
    assert evidence.outcome == "recipe", evidence.why
    assert "wakes" in evidence.plan.parts
    assert not WRONG.keys() & evidence.plan.parts.keys()
    assert read_recipe(tmp_path / "out/recipe.toml").as_plan() == evidence.plan
    assert set(psutil.Process().children(recursive=True)) <= before


WRONG = {
    "bit_flipped_before": "refuted",
    "exponent_flipped_later": "refuted",
    "eats_memory": "out_of_memory",
    "killed": "failed",
    "raises": "fell_back",
    "prepares_for_ever": "failed",
    "hangs_with_the_lock": "failed",
}
SAID = {
    "bit_flipped_before": "weight",
    "killed": "signal 9",
    "raises": "no code could be generated",
    "prepares_for_ever": f"gave no answer in {HANG_S:.0f} s",
    "hangs_with_the_lock": f"gave no answer in {HANG_S:.0f} s",
}


class StoppedError(Exception):
    pass


def test_an_earlier_recipe_is_proven_again_gone_on_from_or_not_taken_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faults 20 and 23: one of another torch is searched for anew."""
    task, out, told = f"{TASKS}/sleeping.py:sleeps", tmp_path / "out", list[str]()
    made = tune(task, out=out, minutes=1)
    assert made.outcome == "recipe", made.why

    def until_it_is_known(doing: Doing) -> None:
        told.append(doing.what)
        if doing.what.startswith(("trying", "proving")):
            raise StoppedError

    late = make_trial("fused_optimizer", "out_of_time", "the time was spent")
    write_outcome(out, msgspec.structs.replace(made, trials=(*made.trials, late)), b"{}")
    notes: list[str] = []
    for minutes in (1, 2):
        with pytest.raises(StoppedError):
            tune(task, out=out, minutes=minutes, tell=until_it_is_known, note=notes.append)
        again = told[-1].startswith("proving the recipe again")
        assert again == (minutes == 1), "with more time the search goes on"
    assert not any(words.startswith("trying wakes") for words in told), "that is known"
    tried = sum(each.outcome not in UNTRIED for each in made.trials)
    assert notes == [f"going on from what is in {out}; trials taken over: {tried}"]

    really = tuning.subject_of

    def with_another_torch(*given: Any) -> Subject:
        subject = really(*given)
        versions = {**subject.environment.versions, "torch": "2.11.0"}
        environment = msgspec.structs.replace(subject.environment, versions=versions)
        return msgspec.structs.replace(subject, environment=environment)

    monkeypatch.setattr(tuning, "subject_of", with_another_torch)
    with pytest.raises(StoppedError):
        tune(task, out=out, minutes=1, tell=until_it_is_known)
    assert told[-1].startswith("trying wakes"), "and there it is not"


def test_a_training_that_never_repeats_itself_supports_no_bitwise_claim(tmp_path: Path) -> None:
    """Fault 24: it is said, and what claims no more than rounding is held to that."""
    task = f"{TASKS}/sleeping_restlessly.py:never_repeats"
    evidence = tune(task, out=tmp_path / "out", minutes=1)
    (bitwise,) = [each for each in evidence.trials if each.candidate.technique == "wakes"]
    assert bitwise.outcome == "not_proven"
    assert "repeat itself" in bitwise.why
    assert evidence.outcome == "recipe", evidence.why
    assert set(evidence.plan.parts) == {"wakes_and_rounds"}
    assert evidence.numerics is not None
    assert evidence.numerics.rung is Rung.ROUNDING
    assert any(
        "the naive training does not repeat itself to the bit" in each.why
        for each in evidence.numerics.checks
    )


def test_the_report_tells_where_the_time_goes_in_the_end_though_the_search_did_not_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Search, "_look_again", lambda self, findings, tell: findings)
    evidence = tune(f"{TASKS}/sleeping.py:sleeps", out=tmp_path / "out", minutes=1)
    assert [each.plan for each in evidence.diagnosed] == [NAIVE, evidence.plan]
    assert "wakes" in evidence.plan.parts


def test_a_plan_that_could_not_be_profiled_is_not_profiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, asked = Lab.profile, list[Plan]()

    def profile(lab: Lab, plan: Plan = NAIVE, *rest: Any, **more: Any) -> ProfileParts:
        asked.append(plan)
        if plan != NAIVE:
            raise HastenError("The profiler does not bear it.", fix="")
        return really(lab, plan, *rest, **more)

    monkeypatch.setattr(Lab, "profile", profile)
    evidence = tune(f"{TASKS}/sleeping.py:sleeps", out=tmp_path / "out", minutes=1)
    assert "wakes" in evidence.plan.parts
    assert asked.count(evidence.plan) == 1


def test_a_neighbour_that_comes_midway_makes_no_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 22: two arms that are the same, and every core taken once they are compared."""
    shorten(monkeypatch.setattr, looks_s=(1.0, 2.0, 4.0))
    with ExitStack() as neighbours:

        def tell(doing: Doing) -> None:
            if doing.what.startswith("trying wakes"):
                neighbours.enter_context(hogs(psutil.cpu_count() or 1))

        evidence = tune(f"{TASKS}/sleeping.py:works_on", out=tmp_path, minutes=1, tell=tell)
    (trial,) = [each for each in evidence.trials if each.candidate.technique == "wakes"]
    assert trial.comparison is not None
    assert trial.comparison.load is not None
    assert "other programs" in (trial.comparison.load.disturbance() or ""), "it is known"
    assert trial.outcome in ("no_verdict", "not_faster")
    assert evidence.plan == NAIVE
    assert evidence.outcome != "recipe"


@contextmanager
def hogs(count: int) -> Iterator[None]:
    """Of another program: what starts them has ended, and so they are not among our children."""
    hog = [sys.executable, "-c", "while True: pass"]
    start = (
        "from subprocess import *;"
        f"print(*[Popen({hog}, stdout=DEVNULL).pid for _ in range({count})])"
    )
    told = subprocess.run([sys.executable, "-c", start], stdout=subprocess.PIPE, check=True)
    running = [psutil.Process(int(number)) for number in told.stdout.split()]
    try:
        yield
    finally:
        for each in running:
            each.kill()
