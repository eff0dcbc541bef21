"""Reading a recipe: it is data from anywhere."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from hasten.errors import HastenError
from hasten.records.plan import Rung
from hasten.records.recipe import LARGEST_RECIPE_BYTES, other_machine, read_recipe
from hasten.records.record import to_toml
from hasten.records.trial import Outcome
from hasten.records.verdict import Check, NumericsClaim
from specimens import PARTS, PROVEN, RECIPE, make_trial


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(to_toml(RECIPE), encoding="utf-8")
    return path


def refusal(path: Path) -> HastenError:
    with pytest.raises(HastenError) as caught:
        read_recipe(path)
    assert str(path) in caught.value.what
    return caught.value


def test_a_recipe_is_read_as_it_was_written(path: Path) -> None:
    recipe = read_recipe(path)
    assert recipe == RECIPE
    assert recipe.as_plan().parts == PARTS


def test_comments_and_the_order_of_keys_do_not_matter(path: Path) -> None:
    head, tables = path.read_text().split("\n\n", 1)
    lines = [f"# {line}\n{line}" for line in reversed(head.splitlines())]
    path.write_text("\n".join(lines) + "\n\n" + tables)
    assert read_recipe(path) == RECIPE


def test_a_missing_file_is_named_with_what_to_give(tmp_path: Path) -> None:
    error = refusal(tmp_path / "nowhere.toml")
    assert "No such file" in error.what
    assert error.fix == "Give the recipe.toml that hasten tune wrote."


def test_a_folder_is_not_a_recipe(tmp_path: Path) -> None:
    refused = refusal(tmp_path)
    assert refused.what.endswith("it is a folder.")
    assert refused.fix == f"Give {tmp_path / 'recipe.toml'}."


def test_a_file_that_is_not_toml_is_refused_with_the_line(path: Path) -> None:
    path.write_text("format = 1\nthis is prose\n")
    error = refusal(path)
    assert "is not TOML" in error.what
    assert "line 2" in error.what
    assert error.fix == "Mend that line: this is prose."


def test_a_file_that_is_not_utf_8_is_refused(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"train.py", b"tr\xe4n.py"))
    assert "cannot be read" in refusal(path).what


def test_a_file_that_an_editor_marked_as_utf_8_is_read(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_recipe(path) == RECIPE


def test_an_unknown_key_is_refused_with_the_nearest(path: Path) -> None:
    path.write_text("evidence_sha265 = 'x'\n" + path.read_text())
    error = refusal(path)
    assert "'evidence_sha265' is not known" in error.what
    assert error.fix == "Did you mean 'evidence_sha256'?"


def test_an_import_path_is_a_key_like_any_other(path: Path) -> None:
    path.write_text("_target_ = 'os.system'\n" + path.read_text())
    assert "'_target_' is not known" in refusal(path).what


def test_a_wrong_type_is_refused_with_its_path(path: Path) -> None:
    path.write_text(path.read_text().replace("ratio = 1.5", "ratio = 'fast'"))
    assert 'speed.ratio = "fast" is text; it takes a number' in refusal(path).what


@pytest.mark.parametrize("bytes_too_many", [1, 10 * LARGEST_RECIPE_BYTES])
def test_a_file_larger_than_any_recipe_is_refused(path: Path, bytes_too_many: int) -> None:
    size = LARGEST_RECIPE_BYTES + bytes_too_many
    path.write_text(path.read_text().ljust(size, "\n"))
    assert "which no recipe has" in refusal(path).what


def test_a_file_of_the_largest_size_is_read(path: Path) -> None:
    path.write_text(path.read_text().ljust(LARGEST_RECIPE_BYTES, "\n"))
    assert read_recipe(path) == RECIPE


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs a file without an end")
def test_a_file_without_an_end_is_refused() -> None:
    assert "which no recipe has" in refusal(Path("/dev/zero")).what


def test_another_format_is_refused(path: Path) -> None:
    path.write_text(path.read_text().replace("format = 1", "format = 2"))
    error = refusal(path)
    assert "format = 2 is not known; this Hasten reads 1" in error.what
    assert error.fix == "A later Hasten wrote it: install that one, or run hasten tune again."


def test_another_format_is_refused_as_such_though_its_keys_are_new(path: Path) -> None:
    text = path.read_text().replace("format = 1", "format = 2\nnovelty = true")
    path.write_text(text)
    assert "format = 2 is not known" in refusal(path).what


def test_a_recipe_without_a_format_is_refused(path: Path) -> None:
    path.write_text(path.read_text().replace("format = 1\n", ""))
    assert "key 'format' is missing" in refusal(path).what


def test_a_recipe_is_read_as_utf_8_whatever_the_locale_says(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    recipe = msgspec.structs.replace(RECIPE, task="träne.py:make_task")
    path.write_text(to_toml(recipe), encoding="utf-8")
    code = (
        "import sys, pathlib; from hasten.records.recipe import read_recipe;"
        "print(ascii(read_recipe(pathlib.Path(sys.argv[1])).task))"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == ascii("träne.py:make_task")


def test_the_refusal_of_another_machine_says_what_differs_and_what_to_do() -> None:
    error = other_machine("r.toml", ["cpu: Old, here New", "torch: 2.11, here 2.13"])
    assert error.what == (
        "r.toml was proven on another machine (cpu: Old, here New; torch: 2.11, here 2.13)."
    )
    assert "hasten prove TASK r.toml" in error.fix
    assert "Tune again" in error.fix


def test_the_refusal_of_another_machine_may_have_a_fix_of_its_own() -> None:
    assert other_machine("r.toml", ["cpu"], fix="Tune again here.").fix == "Tune again here."


@pytest.mark.parametrize(
    ("outcome", "minutes", "more"),
    [("out_of_time", 20.0, True), ("out_of_time", 10.0, False), ("not_tried", 20.0, False)],
)
def test_only_more_minutes_for_what_was_left_for_lack_of_them_are_worth_a_search(
    outcome: Outcome, minutes: float, more: bool
) -> None:
    trials = (make_trial("batched_loader"), make_trial("compile", outcome))
    evidence = msgspec.structs.replace(PROVEN, trials=trials)
    assert evidence.minutes == 10.0
    assert evidence.has_more_to_try(minutes) is more


def test_a_proof_that_was_cut_short_is_worth_more_minutes_too() -> None:
    trials = (make_trial("batched_loader"),)
    done = msgspec.structs.replace(PROVEN, trials=trials)
    assert not done.has_more_to_try(20.0)
    assert msgspec.structs.replace(done, cut_short=("half",)).has_more_to_try(20.0)
    check = Check(name="parity", verdict="not_proven", why="the time was spent", short_of_time=True)
    numerics = NumericsClaim(rung=Rung.PARITY, verdict="not_proven", checks=(check,))
    late = msgspec.structs.replace(done, numerics=numerics)
    assert late.has_more_to_try(20.0)
    assert not late.has_more_to_try(10.0)


def test_a_recipe_that_says_its_rows_per_second_is_read_and_one_that_does_not_is_too(
    path: Path,
) -> None:
    assert read_recipe(path).speed.rows_per_s is None
    path.write_text(path.read_text().replace("ratio = 1.5", "ratio = 1.5\nrows_per_s = 150.5"))
    assert read_recipe(path).speed.rows_per_s == 150.5
