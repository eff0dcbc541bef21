"""Tasks by name: what is imported, and what a user sees when it cannot be."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest
import torch

import hasten
from hasten.errors import HastenError
from hasten.gallery.bloom import task as bloom
from hasten.records.finding import Place
from hasten.task import places
from hasten.task.load import build_task, load_factory, place_of, user_error
from hasten.task.task import Task

Write = Callable[[str, str], Path]
TASK = """
    import torch
    import hasten

    def make_task():
        return hasten.Task(
            model=torch.nn.Linear(2, 1), data=(torch.ones(4, 2), torch.ones(4, 1)), batch_size=2,
            loss=torch.nn.functional.mse_loss,
            optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        )
    """
OURS = str(Path(hasten.__file__).parent)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes a file into the working folder; what gets imported from there is forgotten again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    modules = set(sys.modules)

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
        return path

    yield write_file
    for name in set(sys.modules) - modules:
        file = getattr(sys.modules[name], "__file__", None)
        if file is None or file.startswith(str(tmp_path)):
            del sys.modules[name]


def refusal_of(name: str) -> HastenError:
    with pytest.raises(HastenError) as refusal:
        load_factory(name)
    return refusal.value


def test_a_gallery_name_is_its_small_size(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[str] = []
    monkeypatch.setattr(bloom, "factory", sizes.append)
    load_factory("gallery:bloom")
    load_factory("gallery:bloom@small")
    load_factory("gallery:bloom@full")
    assert sizes == ["small", "small", "full"]


def test_a_gallery_task_is_built() -> None:
    task = build_task(load_factory("gallery:bloom"), "gallery:bloom", seed=0)
    assert type(task.model).__name__ == "BloomMLP"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gallery:blom", "gallery workload 'blom' is not known. Did you mean 'bloom'?"),
        ("gallery:bloom@ful", "size of gallery:bloom 'ful' is not known. Did you mean 'full'?"),
        ("gallery:bloom@", "size of gallery:bloom '' is not known. Known: full, small."),
        ("gallery:bloom@7", "size of gallery:bloom '7' is not known. Known: full, small."),
    ],
)
def test_an_unknown_gallery_name_or_size_shows_the_nearest(name: str, message: str) -> None:
    assert str(refusal_of(name)) == message


@pytest.mark.parametrize(
    "name", ["train.py", "make_task", "", ":make_task", "train.py:", "gallery:"]
)
def test_what_names_no_function_is_refused_with_examples(name: str) -> None:
    assert str(refusal_of(name)) == (
        f"{name!r} does not name a task. "
        "Use gallery:bloom, train.py:make_task or package.module:make_task."
    )


def test_a_task_is_loaded_from_a_file(write: Write) -> None:
    write("training_of_file.py", TASK)
    task = build_task(load_factory("training_of_file.py:make_task"), "the task", seed=0)
    assert isinstance(task, Task)


def test_a_task_is_loaded_from_a_module_in_the_working_folder(write: Write) -> None:
    write("loaded_package/__init__.py", "")
    write("loaded_package/training.py", TASK)
    task = build_task(load_factory("loaded_package.training:make_task"), "the task", seed=0)
    assert isinstance(task, Task)


def test_a_file_may_import_its_neighbours_wherever_it_lies(write: Write) -> None:
    write("far/away/neighbour_of_training.py", "ROWS = 12")
    write(
        "far/away/training_with_neighbour.py",
        """
        from neighbour_of_training import ROWS

        def rows():
            return ROWS
        """,
    )
    assert load_factory("far/away/training_with_neighbour.py:rows")() == 12  # type: ignore[comparison-overlap]


def test_the_classes_of_a_file_are_found_again_by_their_module(write: Write) -> None:
    write("training_with_class.py", "class Rows:\n    pass\n\nmake_task = Rows\n")
    made = load_factory("training_with_class.py:make_task")()
    module = sys.modules[type(made).__module__]
    assert module.Rows is type(made)


def test_a_file_is_loaded_once(write: Write) -> None:
    write("training_loaded_twice.py", TASK)
    first = load_factory("training_loaded_twice.py:make_task")
    assert load_factory("training_loaded_twice.py:make_task") is first


def test_a_file_by_the_name_of_a_loaded_module_is_refused(write: Write) -> None:
    write("json.py", TASK)
    assert str(refusal_of("json.py:make_task")) == (
        "A module named 'json' is loaded already, so json.py cannot be imported. "
        "Give the file another name."
    )


def test_a_missing_file_is_refused_by_its_name(write: Write) -> None:
    assert str(refusal_of("missing/train.py:make_task")) == (
        "There is no file 'missing/train.py'. Check the task's name."
    )


def test_a_missing_module_is_refused_by_its_name() -> None:
    assert str(refusal_of("no_such_package.train:make_task")) == (
        "no_such_package.train does not import: ModuleNotFoundError: No module named "
        "'no_such_package'. Mend that first; nothing was measured and nothing was written."
    )


@pytest.mark.parametrize("name", ["failing_training.py:make_task", "failing_training:make_task"])
def test_an_import_error_shows_the_traceback_of_the_user_and_none_of_ours(
    write: Write, name: str
) -> None:
    path = write("failing_training.py", "import failing_neighbour\n")
    neighbour = write("failing_neighbour.py", "rows = 1\nrows / 0\n")
    error = refusal_of(name)
    source = name.rpartition(":")[0]
    assert error.what == f"{source} does not import: ZeroDivisionError: division by zero."
    assert error.detail.splitlines()[0] == f'  File "{path}", line 1, in <module>'
    assert f'  File "{neighbour}", line 2, in <module>' in error.detail
    assert "rows / 0" in error.detail
    assert error.detail.endswith("ZeroDivisionError: division by zero\n")
    assert OURS not in error.detail
    assert "importlib" not in error.detail


def test_a_syntax_error_is_shown_at_its_line(write: Write) -> None:
    path = write("unfinished_training.py", "rows = 1\ndef make_task(:\n")
    error = refusal_of("unfinished_training.py:make_task")
    assert f'  File "{path}", line 2' in error.detail
    assert OURS not in error.detail


def test_a_file_that_failed_to_import_can_be_mended_and_loaded(write: Write) -> None:
    write("mended_training.py", "rows / 0\n")
    folders = list(sys.path)
    refusal_of("mended_training.py:make_task")
    assert sys.path == folders
    write("mended_training.py", TASK)
    assert callable(load_factory("mended_training.py:make_task"))


def test_a_module_that_ends_the_program_is_refused(write: Write) -> None:
    write("ending_training.py", "import sys\nsys.exit(3)\n")
    error = refusal_of("ending_training.py:make_task")
    assert error.what == "ending_training.py does not import: SystemExit: 3."
    assert "sys.exit(3)" in error.detail


def test_a_missing_function_shows_the_nearest(write: Write) -> None:
    write("training_with_typo.py", TASK)
    assert str(refusal_of("training_with_typo.py:make_tusk")) == (
        "training_with_typo.py: function 'make_tusk' is not known. Did you mean 'make_task'?"
    )


def test_what_is_not_a_function_is_refused(write: Write) -> None:
    write("training_of_number.py", "make_task = 7\n")
    assert str(refusal_of("training_of_number.py:make_task")) == (
        "training_of_number.py:make_task is a int, not a function. "
        "Name a function without arguments that returns a hasten.Task."
    )


def test_a_function_that_returns_something_else_is_refused() -> None:
    with pytest.raises(HastenError) as refusal:
        build_task(dict, "train.py:make_task", seed=0)  # type: ignore[arg-type]
    assert str(refusal.value) == (
        "train.py:make_task returned a dict, not a hasten.Task. "
        "Let it return hasten.Task(model=..., data=..., loss=..., optimizer=...)."
    )


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("raise KeyError('rows')", "KeyError: 'rows'"),
        ("import sys; sys.exit('no data')", "SystemExit: no data"),
    ],
)
def test_a_function_that_raises_is_shown_with_its_own_traceback(
    write: Write, statement: str, shown: str
) -> None:
    path = write("raising_training.py", f"def make_task():\n    {statement}\n")
    factory = load_factory("raising_training.py:make_task")
    with pytest.raises(HastenError) as refusal:
        build_task(factory, "raising_training.py:make_task", seed=0)
    error = refusal.value
    assert error.what == f"raising_training.py:make_task raised while it built the task: {shown}."
    assert error.detail.splitlines()[0] == f'  File "{path}", line 2, in make_task'
    assert error.detail.endswith(f"{shown}\n")
    assert OURS not in error.detail


def test_a_refusal_of_hasten_inside_a_function_is_raised_as_it_is() -> None:
    refused = HastenError("No rows.", fix="Add some.")

    def make_task() -> Task:
        raise refused

    with pytest.raises(HastenError) as refusal:
        build_task(make_task, "the task", seed=0)
    assert refusal.value is refused
    assert refused.__cause__ is None


def shown_of_failure_in(filename: str) -> str:
    """What is shown of the traceback of an error that was raised in a file of this name."""
    with pytest.raises(ZeroDivisionError) as raised:
        exec(compile("1 / 0", filename, "exec"))
    return user_error("It failed", raised.value).detail


def test_a_package_that_is_named_like_ours_is_not_taken_for_ours() -> None:
    assert "hasten_of_them.py" in shown_of_failure_in(f"{OURS}_of_them.py")
    assert "hasten/task/x.py" not in shown_of_failure_in(f"{OURS}/task/x.py")


def test_the_gallery_counts_as_user_code() -> None:
    assert "gallery/x.py" in shown_of_failure_in(f"{OURS}/gallery/x.py")


def test_hasten_is_left_out_wherever_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder above ours may be called gallery too."""
    monkeypatch.setattr(places, "HASTEN", Path("/home/gallery/hasten"))
    assert "x.py" not in shown_of_failure_in("/home/gallery/hasten/task/x.py")
    assert "x.py" in shown_of_failure_in("/home/gallery/x.py")


def test_the_same_seed_builds_the_same_weights(write: Write) -> None:
    write("seeded_training.py", TASK)
    factory = load_factory("seeded_training.py:make_task")
    first, again, other = (
        next(build_task(factory, "it", seed).model.parameters()) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_place_of_a_function_is_relative_to_the_working_folder(write: Write) -> None:
    write("placed/training_with_place.py", TASK)
    factory = load_factory("placed/training_with_place.py:make_task")
    assert place_of(factory) == Place(path="placed/training_with_place.py", line=5)


def test_a_class_has_no_place() -> None:
    assert place_of(dict) is None  # type: ignore[arg-type]
