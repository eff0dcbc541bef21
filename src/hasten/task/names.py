"""The name of a task, checked without importing the task or torch.

A slip of the pen is then told at once, and not after a process has loaded torch. Only what is
certain is refused: a task that might load is left to the process that imports it.
"""

import difflib
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path

from hasten.errors import HastenError
from hasten.records.record import unknown_name
from hasten.task.bindings import functions_in, names_bound_in


def refuse_unknown(name: str) -> None:
    """Raises where the name cannot be a task's."""
    source, function = split_name(name)
    if source == "gallery":
        find_workload(function)
        return
    file = find_file(source) if source.endswith(".py") else _file_of_module(source)
    names = None if file is None else names_bound_in(file)
    if file is not None and names is not None and function not in names:
        raise unknown_name("function", function, functions_in(file), where=source)


def split_name(name: str) -> tuple[str, str]:
    source, colon, function = name.rpartition(":")
    if not colon or not source or not function:
        raise HastenError(
            f"{name!r} does not name a task.",
            fix="Use gallery:bloom, train.py:make_task or package.module:make_task.",
        )
    return source, function


def find_workload(name: str) -> tuple[str, str]:
    """Name and size of a bundled workload; the small size where none is named."""
    name, at, size = name.partition("@")
    gallery = importlib.import_module("hasten.gallery")
    names = [each.name for each in pkgutil.iter_modules(gallery.__path__) if each.ispkg]
    if name not in names:
        raise unknown_name("gallery workload", name, names)
    about = importlib.import_module(f"hasten.gallery.{name}.about")
    sizes = [each.name for each in about.WORKLOAD.sizes]
    size = size if at else "small"
    if size not in sizes:
        raise unknown_name(f"size of gallery:{name}", size, sizes)
    return name, size


def find_file(source: str) -> Path:
    path = Path(source)
    if path.is_file():
        return path
    neighbours = path.parent.glob("*.py") if path.parent.is_dir() else ()
    fix = _did_you_mean(path.name, (each.name for each in neighbours), path.parent)
    raise HastenError(f"There is no file {source!r}.", fix=fix or "Check the task's name.")


def _file_of_module(source: str) -> Path | None:
    """The file of a module that lies in no package; None where that is not certain. Of others only
    the outermost package is looked for: the rest is known when that has been imported."""
    flags = sys.flags
    if flags.isolated or flags.no_site or flags.ignore_environment or flags.no_user_site:
        return None  # the process that imports it looks in more places than this one
    outermost, dot, _ = source.partition(".")
    here = str(Path.cwd())
    if not outermost or outermost in sys.modules:
        return None
    spec = importlib.util.find_spec(outermost) or PathFinder.find_spec(outermost, [here])
    if spec is None:
        beside = (each.name for each in pkgutil.iter_modules([here]))
        fix = _did_you_mean(outermost, beside) or "Run hasten in the folder that it lies in."
        raise HastenError(f"There is no module {outermost!r} to import {source} from.", fix=fix)
    plain = not dot and isinstance(spec.loader, SourceFileLoader) and spec.origin is not None
    return Path(spec.origin) if plain and spec.origin else None


def _did_you_mean(name: str, known: Iterable[str], folder: Path = Path()) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f"Did you mean {str(folder / near[0])!r}?" if near else ""
