"""Fixes are kept only if a task trains the same with them, and faster."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from hasten.errors import HastenError
from hasten.measure.lab import Lab, Subject
from hasten.records.plan import Rung
from hasten.records.recipe import Confirmation
from hasten.records.scan import CodeFinding, FixReport
from hasten.records.verdict import Check, Control, NumericsClaim, SpeedClaim, Verdict
from hasten.scan.fix import survey_tree
from hasten.scan.proposal import Proposal
from hasten.scan.settings import Project
from hasten.tune import prove_fixes as module
from hasten.tune.prove_fixes import FixTrier, judge, prove_fixes
from quick import shorten
from specimens import CONFIRMATION

TRAINING = """\
import time

import torch
from torch import nn

import hasten

read = torch.Tensor.item


def item(self):
    time.sleep(0.02)  # as if a busy device were waited for
    return read(self)


torch.Tensor.item = item
seen = []


def forward(model, batch):
    right, losses = 0, []
    batches = zip(batch[0].split(4), batch[1].split(4))
    for x, y in batches:
        output = model(x)
        losses.append(nn.functional.cross_entropy(output, y))
        right += (output.argmax(1) == y).sum().item()
    seen.append(right)
    return torch.stack(losses).mean()


def count(model, loader):
    right = 0
    for x, y in loader:
        right += (model(x) == y).sum().item()
    return right


def make_task():
    return hasten.Task(
        model=nn.Linear(8, 4),
        data=(torch.randn(64, 8), torch.randint(0, 4, (64,))),
        forward=forward,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-2),
        batch_size=16,
    )
"""
FIXED = TRAINING.replace(
    ".argmax(1) == y).sum().item()\n", ".argmax(1) == y).sum()\n    right = int(right)\n"
)
STEP, IDLE = 26, 34
"""Lines with something to fix; the task runs the first."""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "fixable_training.py"
    file.write_text(TRAINING)
    return file


def propose(*files: Path) -> Proposal:
    project = Project(files[0].parent)
    return Proposal(survey_tree(files, project), files)


@pytest.fixture(scope="module")
def _short() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch.setattr)
        yield


def outcomes(report: FixReport) -> list[tuple[int, str]]:
    assert report.proof is not None
    return [(each.fixes[0].line, each.outcome) for each in report.proof.trials]


@pytest.mark.usefixtures("_short")
def test_a_fix_that_pays_is_written_and_one_that_is_not_run_is_not(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is real but for how sure the speed is, which so short a time cannot tell."""
    timed: list[Confirmation] = []

    def claim(confirmation: Confirmation, floor: float) -> SpeedClaim:
        timed.append(confirmation)
        return speed(1.1, 1.2)

    monkeypatch.setattr(module, "claim_speed", claim)
    report = prove_fixes(f"{script.name}:make_task", propose(script), write=True)
    assert outcomes(report) == [(IDLE, "not_run"), (STEP, "kept")]
    assert script.read_text() == FIXED
    assert [each.line for each in report.fixed] == [STEP]
    assert report.proof is not None
    kept = report.proof.trials[1]
    assert kept.numerics is not None
    assert (kept.numerics.rung, kept.numerics.verdict) == (Rung.BITWISE, "proven")
    assert [each.failure for each in timed] == [None]
    assert timed[0].pairs[0].ratio > 1, "steps without 80 ms of sleep"


def with_another_text(proposal: Proposal, was: str, text: str) -> Proposal:
    """As if the fix put another text there."""

    def changed(each: CodeFinding) -> CodeFinding:
        assert each.fix is not None
        edits = tuple(
            replace(edit, text=text) if edit.text == was else edit for edit in each.fix.edits
        )
        assert edits != each.fix.edits
        return replace(each, fix=replace(each.fix, edits=edits))

    proposal.groups = [
        tuple(map(changed, group)) for group in proposal.groups if group[0].line == STEP
    ]
    return proposal


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize(
    ("line", "outcome", "why"),
    [
        ("losses = losses[1:]", "not_the_same", ""),
        pytest.param(
            "raise ValueError('planted')", "not_proven", "planted", marks=pytest.mark.long
        ),
    ],
)
def test_a_fix_that_changes_the_training_is_refused(
    script: Path, line: str, outcome: str, why: str
) -> None:
    proposal = propose(script)
    was = next(
        edit.text
        for group in proposal.groups
        for each in group
        if each.fix and each.line == STEP
        for edit in each.fix.edits
        if "int(right)" in edit.text
    )
    with_another_text(proposal, was, was.replace("right = int(right)", line))
    report = prove_fixes(f"{script.name}:make_task", proposal, write=True)
    assert outcomes(report) == [(STEP, outcome)]
    assert report.proof is not None
    assert why in report.proof.trials[0].why
    assert report.proof.control is None, "what is not the same is not timed"
    assert script.read_text() == TRAINING
    assert report.fixed == ()


@pytest.mark.usefixtures("_short")
def test_a_task_that_loads_none_of_the_files_is_an_error(script: Path) -> None:
    other = script.with_name("other_training.py")
    other.write_text(TRAINING)
    with pytest.raises(
        HastenError, match=r"loads none of the files .*: fixable_training.py"
    ) as told:
        prove_fixes(f"{other.name}:make_task", propose(script), write=True)
    assert "Name a task that trains with them" in told.value.fix
    assert script.read_text() == TRAINING


def test_where_there_is_nothing_to_fix_the_task_is_not_run(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposal = propose(script)
    proposal.groups = []
    monkeypatch.setattr(module, "Lab", None)
    report = prove_fixes(f"{script.name}:make_task", proposal, write=True)
    assert report.proof is not None
    assert report.proof.trials == ()


def test_a_task_that_is_not_there_is_told_before_anything_is_done(script: Path) -> None:
    with pytest.raises(HastenError, match=r"There is no file 'trian.py'"):
        prove_fixes("trian.py:make_task", propose(script), write=True)


def numerics(verdict: Verdict) -> NumericsClaim:
    check = Check(name="bitwise", verdict=verdict, why="as was said")
    return NumericsClaim(rung=Rung.BITWISE, verdict=verdict, checks=(check,))


def speed(low: float, high: float) -> SpeedClaim:
    verdict: Verdict = "proven" if low > 1.02 else "refuted" if high < 1.01 else "not_proven"
    return SpeedClaim(
        verdict=verdict,
        ratio=(low + high) / 2,
        low=low,
        high=high,
        noise_floor=1.02,
        a_rows_per_s=1.0,
        b_rows_per_s=1.0,
        warmup_extra_s=0.0,
        break_even_rows=None,
    )


CONFIRMED = replace(CONFIRMATION, failure=None)


@pytest.mark.parametrize(
    ("same", "measured", "outcome"),
    [
        ("proven", speed(1.1, 1.2), "kept"),
        ("proven", speed(1.0, 1.2), "not_faster"),
        ("proven", speed(0.995, 1.005), "not_faster"),
        ("proven", speed(0.8, 0.9), "slower"),
        ("proven", None, "not_proven"),
        ("refuted", None, "not_the_same"),
        ("refuted", speed(1.1, 1.2), "not_the_same"),
        ("not_proven", speed(1.1, 1.2), "not_proven"),
    ],
)
def test_only_what_is_proven_the_same_and_proven_faster_is_kept(
    same: Verdict, measured: SpeedClaim | None, outcome: str
) -> None:
    found, why = judge(numerics(same), CONFIRMED, measured)
    assert found == outcome
    assert why


Pretend = Callable[[Subject], tuple[Verdict, SpeedClaim | None]]


def tried(
    script: Path, monkeypatch: pytest.MonkeyPatch, pretend: Pretend
) -> tuple[FixTrier, list[tuple[list[int], bool, str]]]:
    """As if the fixes came to what ``pretend`` says; the files that would be run are real."""
    claims: list[SpeedClaim | None] = []

    def prove_same(prover: object, subject: Subject) -> NumericsClaim:
        same, claim = pretend(subject)
        claims.append(claim)
        return numerics(same)

    monkeypatch.setattr(module, "prove_same", prove_same)
    monkeypatch.setattr(module, "measure_noise", lambda *given: Control(runs=CONFIRMED.pairs[:1]))
    monkeypatch.setattr(module, "confirm", lambda *given: CONFIRMED)
    monkeypatch.setattr(module, "claim_speed", lambda *given: claims[-1])
    proposal = propose(script)
    with Lab(f"{script.name}:make_task", 0) as lab:
        trier = FixTrier(lab, None, proposal, lambda said: None, lambda trial: None)  # type: ignore[arg-type]
        trier.try_all(proposal.groups)
    return trier, [
        ([fix.line for fix in each.fixes], each.together, each.outcome) for each in trier.trials
    ]


def fixes_of(subject: Subject) -> set[int]:
    """Of the places, those that a subject has fixed."""
    ((path, instead),) = subject.edited.items()
    assert Path(path).read_text() == TRAINING
    text = Path(instead).read_text()
    assert text != TRAINING
    fixed_step = "(output.argmax(1) == y).sum()\n" in text
    fixed_idle = "(model(x) == y).sum()\n" in text
    return {line for line, is_fixed in ((STEP, fixed_step), (IDLE, fixed_idle)) if is_fixed}


def test_all_are_tried_together_first(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trier, told = tried(script, monkeypatch, lambda subject: ("proven", speed(1.1, 1.2)))
    assert told == [([STEP, IDLE], True, "kept")]
    assert len(trier.kept) == 2


@pytest.mark.parametrize(("bad", "good"), [(STEP, IDLE), (IDLE, STEP)])
def test_if_that_does_not_hold_each_group_is_tried_by_itself(
    script: Path, monkeypatch: pytest.MonkeyPatch, bad: int, good: int
) -> None:
    trier, told = tried(
        script,
        monkeypatch,
        lambda subject: (
            "refuted" if bad in fixes_of(subject) else "proven",
            speed(1.1, 1.2),
        ),
    )
    assert told[0] == ([STEP, IDLE], True, "not_the_same")
    assert sorted(told[1:]) == sorted([([bad], False, "not_the_same"), ([good], False, "kept")])
    assert [group[0].line for group in trier.kept] == [good]


def test_a_group_is_tried_on_top_of_what_was_kept_before_it(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[int]] = []

    def slow_at_first(subject: Subject) -> tuple[Verdict, SpeedClaim]:
        seen.append(fixes_of(subject))
        return "proven", speed(0.99, 1.2) if len(seen) == 1 else speed(1.1, 1.2)

    trier, told = tried(script, monkeypatch, slow_at_first)
    assert seen == [{STEP, IDLE}, {STEP}, {STEP, IDLE}]
    assert [outcome for _, _, outcome in told] == ["not_faster", "kept", "kept"]
    assert len(trier.kept) == 2


def test_two_that_change_the_same_text_are_not_kept_together(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Proposal.texts

    def one_at_a_time(self: Proposal, groups: list[object]) -> object:
        return made(self, groups[:1])  # type: ignore[arg-type]

    monkeypatch.setattr(Proposal, "texts", one_at_a_time)
    trier, told = tried(script, monkeypatch, lambda subject: ("proven", speed(1.1, 1.2)))
    assert [(lines, outcome) for lines, _, outcome in told] == [
        ([STEP], "kept"),
        ([IDLE], "not_tried"),
    ]
    assert [group[0].line for group in trier.kept] == [STEP]
