"""Keeping a figure and holding runs against it, with arms that answer at once."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from hasten.errors import HastenError
from hasten.measure import messages
from hasten.measure.worker import WorkerFailure
from hasten.records.applied import Applied
from hasten.records.measurement import Memory
from hasten.records.plan import NAIVE, Plan
from hasten.records.record import to_json
from hasten.records.saved_bench import read_saved
from hasten.records.verdict import Comparison
from hasten.tune import gate
from hasten.tune.arms import Arms
from specimens import ENVIRONMENT, SAVED, make_comparison

replace = msgspec.structs.replace
TASK = SAVED.task


class FakeLab:
    """Notes what is done in it; the arms have come to what ``applied`` says."""

    def __init__(self) -> None:
        self.applied: tuple[Applied, ...] = ()
        self.fails = False
        self.pairs = 0
        self.open = 0
        self.environment = ENVIRONMENT
        self.plan_b: Plan = NAIVE
        self.asked: tuple[str, str] | None = None
        self.ratios: Iterator[float] = iter(())

    def __call__(self, task: str, seed: int) -> "FakeLab":
        return self

    def __enter__(self) -> "FakeLab":
        return self

    def __exit__(self, *exception: object) -> None:
        assert not self.open

    def arms(self, a: Any, b: Any) -> list[Any]:
        self.open += 2
        if self.fails:
            raise WorkerFailure(messages.Failed(kind="crashed", what="The process died."))
        lost = next((each for each in self.applied if each.outcome != "done"), None)
        memory = Memory(host_bytes=7)
        return [SimpleNamespace(fell_back=lambda: lost, read=lambda: memory)] * 2

    def close_workers(self) -> None:
        self.open = 0

    def find_arms(self, lab: object, a: str, b: str, tell: object) -> Arms:
        self.asked = (a, b)
        described: Any = SimpleNamespace(environment=self.environment)
        return Arms(described, NAIVE, self.plan_b)

    def gauge(self, a: object, b: object, *, seed: int) -> Comparison:
        self.pairs += 1
        return make_comparison(next(self.ratios))


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> FakeLab:
    fake = FakeLab()
    monkeypatch.setattr(gate, "Lab", fake)
    monkeypatch.setattr(gate, "find_arms", fake.find_arms)
    monkeypatch.setattr(gate, "gauge", fake.gauge)
    return fake


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bench.json"
    path.write_bytes(to_json(SAVED))
    return path


def against(file: Path, *names: str, task: str = TASK, seed: int = 0) -> Any:
    return gate.against(task, names, file, seed=seed, tell=lambda message: None)


def save(file: Path, *names: str) -> Any:
    return gate.save(TASK, names, file, seed=0, tell=lambda message: None)


@pytest.mark.parametrize(
    ("ratio", "verdict", "regression"),
    [(2.0, "proven", False), (2.0 / 1.1, "refuted", True), (2.2, "proven", False)],
)
def test_a_clear_run_is_decided_at_the_first_look(
    ratio: float, verdict: str, regression: bool, lab: FakeLab, file: Path
) -> None:
    lab.ratios = iter([ratio] * 9)
    report = against(file)
    assert (report.verdict, report.regression) == (verdict, regression)
    assert lab.pairs == len(report.pairs) == gate.LOOKS[0]
    assert report.change.times == pytest.approx(2.0 / ratio)
    assert (report.saved_memory, report.b_memory) == (SAVED.b_memory, Memory(host_bytes=7))


def test_a_noisy_run_takes_more_pairs_and_then_says_that_it_cannot_tell(
    lab: FakeLab, file: Path
) -> None:
    lab.ratios = iter([2.0, 1.6, 2.3, 1.7, 2.2, 1.9])
    report = against(file)
    assert lab.pairs == gate.LOOKS[-1]
    assert (report.verdict, report.regression) == ("not_proven", False)
    assert report.change.decision == "undecided"


def test_later_pairs_can_decide(lab: FakeLab, file: Path) -> None:
    lab.ratios = iter([1.70, 1.92, 1.815, 1.815, 1.815])
    report = against(file)
    assert gate.LOOKS[0] < lab.pairs <= gate.LOOKS[-1]
    assert report.regression


def test_a_file_that_was_saved_is_one_that_is_accepted(lab: FakeLab, tmp_path: Path) -> None:
    lab.ratios = iter([2.0, 2.01, 1.99] * 3)
    made = save(tmp_path / "new.json")
    assert lab.pairs == len(made.pairs) == gate.SAVED_PAIRS
    assert lab.asked == ("reference", "naive")
    assert read_saved(tmp_path / "new.json") == made
    assert [path.name for path in tmp_path.iterdir()] == ["new.json"]
    lab.ratios = iter([2.0] * 3)
    assert against(tmp_path / "new.json").verdict == "proven"


@pytest.mark.parametrize(
    ("names", "asked"),
    [
        ((), ("reference", "naive")),
        (("recipe.toml",), ("reference", "recipe.toml")),
        (("naive", "advanced"), ("naive", "advanced")),
    ],
)
def test_one_name_is_held_against_the_reference_and_two_against_each_other(
    names: tuple[str, ...], asked: tuple[str, str], lab: FakeLab, tmp_path: Path
) -> None:
    lab.ratios = iter([2.0] * 9)
    assert (save(tmp_path / "b.json", *names).a, lab.asked) == (asked[0], asked)
    lab.ratios = iter([2.0] * 9)
    lab.asked = None
    against(tmp_path / "b.json")
    assert lab.asked == asked, "without names the arms are those of the file"


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"task": "other.py:make"}, "saved for the task train.py:make_task, and this is other.py"),
        ({"seed": 1}, "saved for the seed 0, and this is 1"),
        ({"names": ("advanced",)}, "the arms reference naive, and this is reference advanced"),
        ({"names": ("naive", "naive")}, "the arms reference naive, and this is naive naive"),
    ],
)
def test_another_question_is_refused_before_any_work(
    question: dict[str, Any], words: str, lab: FakeLab, file: Path
) -> None:
    names = question.pop("names", ())
    with pytest.raises(HastenError, match=words):
        against(file, *names, **question)
    assert lab.asked is None


def test_another_machine_is_refused_before_it_is_measured(lab: FakeLab, file: Path) -> None:
    lab.environment = replace(ENVIRONMENT, cpu="Cray-1")
    with pytest.raises(HastenError, match=r"saved on another machine .*here Cray-1"):
        against(file)
    assert lab.pairs == 0


def test_an_arm_that_has_become_another_plan_is_refused(lab: FakeLab, file: Path) -> None:
    lab.plan_b = Plan(parts={"compile": {}})
    with pytest.raises(HastenError, match=r"naive was naive when .* saved, and is compile now"):
        against(file)
    assert lab.pairs == 0


def test_an_arm_that_did_not_really_run_neither_passes_nor_is_saved(
    lab: FakeLab, file: Path
) -> None:
    lab.ratios = iter([2.0] * 9)
    lab.applied = (Applied(technique="compile", outcome="fell_back", why="no compiler"),)
    before = file.read_bytes()
    for question in (against, save):
        with pytest.raises(HastenError, match="compile: fell back"):
            question(file)
    assert file.read_bytes() == before


def test_a_process_that_dies_neither_passes_nor_is_saved(lab: FakeLab, file: Path) -> None:
    lab.fails = True
    before = file.read_bytes()
    for question in (against, save):
        with pytest.raises(HastenError, match="The process died"):
            question(file)
    assert file.read_bytes() == before


def test_saving_replaces_a_saved_bench_and_nothing_else(lab: FakeLab, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\n")
    with pytest.raises(HastenError, match="is no saved bench; it is left alone"):
        save(script)
    with pytest.raises(HastenError, match="is no saved bench"):
        save(tmp_path)
    with pytest.raises(HastenError, match="There is no folder"):
        save(tmp_path / "nowhere" / "b.json")
    assert script.read_text() == "import torch\n"
    assert lab.asked is None
    old = tmp_path / "old.json"
    old.write_text('{"format": 0, "reference": 0, "pairs": []}')
    lab.ratios = iter([2.0] * 9)
    made = save(old)
    assert read_saved(old) == made
