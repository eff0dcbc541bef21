"""The files of a tuning: whole, tied together, and nothing before there is something to say."""

import hashlib
import json
import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import msgspec
import pytest

from hasten.errors import HastenError
from hasten.records.recipe import Evidence, read_recipe
from hasten.records.record import from_json
from hasten.records.tuning import Aim
from hasten.records.verdict import MemoryClaim
from hasten.report.markdown import tune_markdown
from hasten.report.page import tune_page
from hasten.techniques.registry import recipe_schema
from hasten.tune import files
from hasten.tune.files import (
    EVIDENCE,
    MARKDOWN,
    PAGE,
    PREVIOUS,
    PREVIOUS_EVIDENCE,
    RECIPE,
    SCHEMA,
    make_recipe,
    write_outcome,
    write_report,
)
from hasten.tune.journal import JOURNAL, Journal
from hasten.tune.spending import Stopwatch
from specimens import ENVIRONMENT, FINDING, NOTHING_TO_GAIN, PARTS, PROVEN, UNPROVEN

SCHEMA_BYTES = msgspec.json.encode(recipe_schema())
NOBODY = 65534


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "out"


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may write anywhere: what may not be written takes another user to see."""
    if os.getuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def lines(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (out / JOURNAL).read_text().splitlines()]


def written(out: Path) -> set[str]:
    return {path.name for path in out.iterdir()}


def test_nothing_is_made_before_the_first_note(out: Path) -> None:
    Journal(out, Stopwatch())
    assert not out.parent.exists()


def test_a_note_is_in_the_file_at_once(out: Path) -> None:
    journal = Journal(out, Stopwatch())
    journal.note(ENVIRONMENT)
    assert [list(line) for line in lines(out)] == [["environment", "spent"]]
    journal.note(FINDING)
    journal.note(PROVEN.trials[0])
    assert [list(line) for line in lines(out)] == [
        [name, "spent"] for name in ("environment", "finding", "trial")
    ]
    assert lines(out)[1]["finding"] == msgspec.to_builtins(FINDING)


def test_a_new_tuning_begins_a_new_journal(out: Path) -> None:
    for _ in range(2):
        journal = Journal(out, Stopwatch())
        journal.note(ENVIRONMENT)
        journal.note(FINDING)
    assert len(lines(out)) == 2


def test_making_a_journal_leaves_the_old_one_until_there_is_something_to_note(out: Path) -> None:
    Journal(out, Stopwatch()).note(ENVIRONMENT)
    Journal(out, Stopwatch())
    assert len(lines(out)) == 1


def test_a_note_is_one_line_whatever_is_in_it(out: Path) -> None:
    Journal(out, Stopwatch()).note(
        msgspec.structs.replace(FINDING, title="two\nlines\u2028or three")
    )
    assert (out / JOURNAL).read_bytes().count(b"\n") == 1


def test_out_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "taken"
    file.write_text("mine")
    for out in (file, file / "below", file / "far" / "below"):
        with pytest.raises(HastenError, match="taken is not a folder") as caught:
            Journal(out, Stopwatch())
        assert f"--out {out}" in caught.value.what
        assert caught.value.fix
    assert file.read_text() == "mine"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder of the kernel's")
@pytest.mark.parametrize("out", ["/proc/hasten", "/proc/hasten/out"])
def test_out_where_only_trying_tells_that_nothing_can_be_made_is_refused(out: str) -> None:
    with pytest.raises(HastenError, match=f"--out {out}: no file can be made there") as caught:
        Journal(Path(out), Stopwatch())
    assert caught.value.fix


@pytest.mark.parametrize("out", ["new", "new/and/below", "."])
def test_nothing_is_left_of_a_folder_that_was_tried_out(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    Journal(Path(out), Stopwatch())
    Journal(tmp_path / "mine", Stopwatch())
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_out_in_a_folder_that_is_not_writable_is_refused() -> None:
    with as_nobody(), pytest.raises(HastenError, match="/usr is not writable"):
        Journal(Path("/usr/not-there/out"), Stopwatch())


def test_out_below_a_folder_that_may_not_be_looked_into_is_refused(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    try:
        with as_nobody(), pytest.raises(HastenError, match="Permission denied") as caught:
            Journal(closed / "not-there" / "out", Stopwatch())
    finally:
        closed.chmod(0o755)
    assert "closed" in caught.value.what


def test_a_folder_that_is_lost_on_the_way_is_an_error_in_words(out: Path) -> None:
    journal = Journal(out, Stopwatch())
    out.parent.write_text("a file in the way")
    with pytest.raises(HastenError, match="--out"):
        journal.note(ENVIRONMENT)
    with pytest.raises(HastenError, match="--out"):
        write_outcome(out, PROVEN, SCHEMA_BYTES)


def test_a_relative_out_is_taken_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Journal(Path("some/out"), Stopwatch()).note(ENVIRONMENT)
    assert (tmp_path / "some" / "out" / JOURNAL).is_file()


def test_a_proven_tuning_leaves_recipe_evidence_and_schema(out: Path) -> None:
    write_outcome(out, PROVEN, SCHEMA_BYTES)
    assert written(out) == {RECIPE, EVIDENCE, SCHEMA}
    recipe = read_recipe(out / RECIPE)
    assert recipe.task == PROVEN.task
    assert recipe.plan == PARTS
    assert recipe.environment == PROVEN.environment
    assert (recipe.speed.ratio, recipe.speed.low, recipe.speed.high) == (1.5, 1.4, 1.6)
    assert recipe.speed.rows_per_s == 15_000
    assert (recipe.numerics.verdict, recipe.numerics.rung) == ("proven", "rounding")
    assert from_json((out / EVIDENCE).read_bytes(), Evidence, where=EVIDENCE) == PROVEN


def test_a_recipe_of_another_task_is_kept_with_its_evidence_and_that_is_said(out: Path) -> None:
    notes: list[str] = []
    write_outcome(out, PROVEN, SCHEMA_BYTES, notes.append)
    write_outcome(out, PROVEN, SCHEMA_BYTES, notes.append)
    assert notes == [], "a new recipe of the same task is what was asked for"
    kept = (out / EVIDENCE).read_bytes()
    other = msgspec.structs.replace(PROVEN, task="other.py:make_task")
    write_outcome(out, other, SCHEMA_BYTES, notes.append)
    assert notes == [f"{out / RECIPE} was of {PROVEN.task}: it is {out / PREVIOUS} now"]
    assert (out / PREVIOUS_EVIDENCE).read_bytes() == kept
    assert read_recipe(out / PREVIOUS).evidence_sha256 == hashlib.sha256(kept).hexdigest()
    assert read_recipe(out / RECIPE).task == other.task
    (out / RECIPE).write_text("no recipe")
    write_outcome(out, other, SCHEMA_BYTES, notes.append)
    assert "was of what cannot be read" in notes[-1]


def test_a_recipe_that_was_made_for_memory_says_so_with_its_peak(out: Path) -> None:
    memory = MemoryClaim(verdict="proven", a_bytes=100, b_bytes=60, allowed_bytes=None)
    aim = Aim(goal="memory")
    write_outcome(out, msgspec.structs.replace(PROVEN, aim=aim, memory=memory), SCHEMA_BYTES)
    recipe = read_recipe(out / RECIPE)
    assert (recipe.aim, recipe.memory) == (aim, memory)


@pytest.mark.parametrize("evidence", [PROVEN, NOTHING_TO_GAIN, UNPROVEN])
def test_every_tuning_leaves_its_report_as_a_page_and_as_markdown(
    out: Path, evidence: Evidence
) -> None:
    write_outcome(out, evidence, SCHEMA_BYTES)
    write_report(out, evidence, pytest.fail)
    assert (out / PAGE).read_text() == tune_page(evidence, str(out))
    assert (out / MARKDOWN).read_text() == tune_markdown(evidence, str(out))


def test_the_recipe_is_tied_to_the_bytes_of_its_evidence(out: Path) -> None:
    write_outcome(out, PROVEN, SCHEMA_BYTES)
    digest = hashlib.sha256((out / EVIDENCE).read_bytes()).hexdigest()
    assert read_recipe(out / RECIPE).evidence_sha256 == digest


def test_the_recipe_tells_whether_its_plan_was_edited(out: Path) -> None:
    write_outcome(out, PROVEN, SCHEMA_BYTES)
    assert not read_recipe(out / RECIPE).is_edited()
    text = (out / RECIPE).read_text()
    (out / RECIPE).write_text(text.replace('mode = "default"', 'mode = "max-autotune"'))
    assert read_recipe(out / RECIPE).is_edited()


@pytest.mark.parametrize("compiler", ["/usr/bin/g++", None])
def test_the_recipe_fits_the_schema_that_lies_beside_it(out: Path, compiler: str | None) -> None:
    environment = msgspec.structs.replace(ENVIRONMENT, compiler=compiler)
    evidence = msgspec.structs.replace(PROVEN, environment=environment)
    write_outcome(out, evidence, SCHEMA_BYTES)
    schema = json.loads((out / SCHEMA).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(tomllib.loads((out / RECIPE).read_text()), schema)
    assert read_recipe(out / RECIPE).environment.compiler == compiler


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[plan.batched_loader]", "[plan.batch_loader]"),
        ('mode = "default"', 'mod = "default"'),
        ('mode = "default"', "mode = 3"),
        ("format = 1", "format = 1\nextra = 1"),
    ],
)
def test_the_schema_refuses_what_reading_refuses(out: Path, old: str, new: str) -> None:
    write_outcome(out, PROVEN, SCHEMA_BYTES)
    text = (out / RECIPE).read_text()
    assert old in text
    schema = json.loads((out / SCHEMA).read_text())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(text.replace(old, new)), schema)


def test_the_recipe_names_its_schema_in_the_first_line(out: Path) -> None:
    write_outcome(out, PROVEN, SCHEMA_BYTES)
    assert (out / RECIPE).read_text().splitlines()[0] == f"#:schema ./{SCHEMA}"


@pytest.mark.parametrize("evidence", [NOTHING_TO_GAIN, UNPROVEN])
def test_without_a_proof_there_is_evidence_and_no_recipe(out: Path, evidence: Evidence) -> None:
    write_outcome(out, evidence, SCHEMA_BYTES)
    assert written(out) == {EVIDENCE}
    assert from_json((out / EVIDENCE).read_bytes(), Evidence, where=EVIDENCE) == evidence


@pytest.mark.parametrize("evidence", [PROVEN, NOTHING_TO_GAIN, UNPROVEN])
def test_the_recipe_of_an_earlier_tuning_is_kept_aside(out: Path, evidence: Evidence) -> None:
    out.mkdir(parents=True)
    (out / RECIPE).write_text("edited by hand")
    write_outcome(out, evidence, SCHEMA_BYTES)
    assert (out / PREVIOUS).read_text() == "edited by hand"
    assert (out / RECIPE).exists() == (evidence is PROVEN)


@pytest.mark.parametrize("evidence", [PROVEN, NOTHING_TO_GAIN])
def test_that_the_earlier_recipe_is_no_longer_in_its_place_is_said(
    out: Path, evidence: Evidence
) -> None:
    notes: list[str] = []
    write_outcome(out, PROVEN, SCHEMA_BYTES, notes.append)
    before = (out / RECIPE).read_bytes(), (out / EVIDENCE).read_bytes()
    write_outcome(
        out, msgspec.structs.replace(evidence, task=PROVEN.task), SCHEMA_BYTES, notes.append
    )
    assert ((out / PREVIOUS).read_bytes(), (out / PREVIOUS_EVIDENCE).read_bytes()) == before
    replaced = evidence is PROVEN
    assert notes == ([] if replaced else [f"no recipe now; the earlier one is {out / PREVIOUS}"])


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)


def test_evidence_that_cannot_be_written_leaves_no_recipe(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_disk(monkeypatch)
    with pytest.raises(HastenError, match="No space left on device"):
        write_outcome(out, PROVEN, SCHEMA_BYTES)
    assert written(out) == set()


LATER = msgspec.structs.replace(PROVEN, created="2030-01-01T00:00:00+00:00")


def written_but(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = files.write_atomically

    def write(path: Path, content: bytes) -> None:
        if path.name == name:
            raise OSError(28, "No space left on device")
        real(path, content)

    monkeypatch.setattr(files, "write_atomically", write)


@pytest.mark.parametrize("full_at", [PREVIOUS, PREVIOUS_EVIDENCE, EVIDENCE, SCHEMA, RECIPE])
def test_a_full_disk_costs_no_earlier_recipe_and_not_its_evidence(
    out: Path, monkeypatch: pytest.MonkeyPatch, full_at: str
) -> None:
    write_outcome(out, PROVEN, SCHEMA_BYTES)
    recipe, evidence = (out / RECIPE).read_bytes(), (out / EVIDENCE).read_bytes()
    with monkeypatch.context() as context:
        written_but(full_at, context)
        with pytest.raises(HastenError, match="No space left on device"):
            write_outcome(out, LATER, SCHEMA_BYTES)
    assert (out / RECIPE).read_bytes() == recipe
    assert evidence in [each.read_bytes() for each in out.iterdir()]
    write_outcome(out, LATER, SCHEMA_BYTES)  # as the journal leads to again
    assert (out / PREVIOUS).read_bytes() == recipe
    assert (out / PREVIOUS_EVIDENCE).read_bytes() == evidence


def test_the_recipe_is_written_after_its_evidence_and_before_anything_is_rendered(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recipe that is there is whole; and the page is only a view of what is on the disk."""
    order: list[str] = []
    real = files.write_atomically

    def write(path: Path, content: bytes) -> None:
        order.append(path.name)
        real(path, content)

    monkeypatch.setattr(files, "write_atomically", write)
    write_outcome(out, PROVEN, SCHEMA_BYTES)
    write_report(out, PROVEN, pytest.fail)
    assert order == [EVIDENCE, SCHEMA, RECIPE, PAGE, MARKDOWN]


def test_a_report_that_cannot_be_made_is_said_and_costs_neither_recipe_nor_the_other_form(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(evidence: Evidence, folder: str) -> str:
        raise ZeroDivisionError("division by zero")

    out.mkdir(parents=True)
    (out / PAGE).write_text("of an earlier tuning")
    monkeypatch.setattr(files, "tune_page", fail)
    said: list[str] = []
    write_outcome(out, PROVEN, SCHEMA_BYTES)
    write_report(out, PROVEN, said.append)
    assert written(out) == {RECIPE, EVIDENCE, SCHEMA, MARKDOWN}
    (words,) = said
    assert f"{out / PAGE} could not be made (ZeroDivisionError: division by zero)" in words


def test_a_disk_that_fills_up_under_the_report_leaves_the_recipe(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    write_outcome(out, PROVEN, SCHEMA_BYTES)
    monkeypatch.setattr(os, "fsync", fail)
    said: list[str] = []
    write_report(out, PROVEN, said.append)
    assert written(out) == {RECIPE, EVIDENCE, SCHEMA}
    assert ["No space left on device" in words for words in said] == [True, True]


@pytest.mark.parametrize("evidence", [NOTHING_TO_GAIN, msgspec.structs.replace(PROVEN, speed=None)])
def test_a_recipe_is_not_made_of_missing_claims(evidence: Evidence) -> None:
    with pytest.raises(AssertionError):
        make_recipe(evidence, "0" * 64)
