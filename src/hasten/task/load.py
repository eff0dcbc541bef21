"""A task by its name: gallery:NAME[@SIZE], file.py:function or package.module:function."""

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from hasten.errors import HastenError
from hasten.records.finding import Place
from hasten.records.record import unknown_name
from hasten.task.names import find_file, find_workload, split_name
from hasten.task.places import is_hastens, shown
from hasten.task.seed import seed_everything
from hasten.task.task import Task

Factory = Callable[[], Task]
NOTHING_DONE = "Mend that first; nothing was measured and nothing was written."


def load_factory(name: str) -> Factory:
    """Import the user's function. Only this and ``build_task`` run the user's module code."""
    source, function = split_name(name)
    if source == "gallery":
        return _gallery_factory(function)
    module = _import(source)
    made = getattr(module, function, None)
    if made is None:
        functions = [key for key, value in vars(module).items() if _can_be_a_factory(value)]
        raise unknown_name("function", function, functions, where=source)
    if not callable(made):
        raise HastenError(
            f"{name} is a {type(made).__name__}, not a function.",
            fix="Name a function without arguments that returns a hasten.Task.",
        )
    return made  # type: ignore[no-any-return]  # build_task checks what it returns


def _can_be_a_factory(value: object) -> bool:
    """A function that can be called without arguments; what it returns only a call tells."""
    if isinstance(value, type) or not callable(value):
        return False
    try:
        inspect.signature(value).bind()
    except (TypeError, ValueError):  # it needs some; or a builtin that does not tell
        return False
    return True


def build_task(factory: Factory, name: str, seed: int) -> Task:
    seed_everything(seed)
    with_user_traceback = f"{name} raised while it built the task"
    try:
        task = factory()
    except HastenError:
        raise
    except (Exception, SystemExit) as error:
        raise user_error(with_user_traceback, error) from error
    if not isinstance(task, Task):
        raise HastenError(
            f"{name} returned a {type(task).__name__}, not a hasten.Task.",
            fix="Let it return hasten.Task(model=..., data=..., loss=..., optimizer=...).",
        )
    return task


def user_error(what: str, error: BaseException, fix: str = NOTHING_DONE) -> HastenError:
    """Wrap what the user's code raised, with its own traceback and none of our frames."""
    if isinstance(error, HastenError):
        return error
    shown = f"{type(error).__name__}: {error}".rstrip(": .")
    return HastenError(
        f"{what}: {shown}.",
        fix=fix,
        detail=users_frames(error),
    )


def users_frames(error: BaseException) -> str:
    """A traceback of the user's own lines."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if _is_theirs(each)]
    lines = [*traceback.format_list(frames), *traceback.format_exception_only(error)]
    return "".join(lines)


def _is_theirs(frame: traceback.FrameSummary) -> bool:
    """Not of Hasten and not of Python's own import machinery."""
    path = Path(frame.filename)
    machinery = frame.filename.startswith("<frozen") or path == Path(importlib.__file__)
    return not machinery and not is_hastens(path)


def place_of(factory: Factory) -> Place | None:
    code = getattr(factory, "__code__", None)
    return Place(path=shown(code.co_filename), line=code.co_firstlineno) if code else None


def _gallery_factory(name: str) -> Factory:
    name, size = find_workload(name)
    module = importlib.import_module(f"hasten.gallery.{name}.task")
    return module.factory(size)  # type: ignore[no-any-return]


def _import(source: str) -> ModuleType:
    try:
        if source.endswith(".py"):
            return _import_file(find_file(source))
        if "" not in sys.path and str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(source)
    except HastenError:
        raise
    except (Exception, SystemExit) as error:
        raise user_error(f"{source} does not import", error) from error


def _import_file(path: Path) -> ModuleType:
    path = path.resolve()
    loaded = sys.modules.get(path.stem)
    if loaded is not None:
        if getattr(loaded, "__file__", None) == str(path):
            return loaded
        raise HastenError(
            f"A module named {path.stem!r} is loaded already, so {path.name} cannot be imported.",
            fix="Give the file another name.",
        )
    # As `python file.py` would: its folder first, so that its own imports work.
    folder = str(path.parent)
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # a .py path always has a spec
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # loader workers unpickle the user's classes by this name
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]  # so that it can be mended and loaded again
        sys.path.remove(folder)
        raise
    return module
