"""Modules that are used as a whole, or imported within a function: by their files."""

import ast
import functools
import importlib.machinery
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING

from hasten.data.cache.keys.packages import version_behind

if TYPE_CHECKING:
    from hasten.data.cache.keys.digester import Digester


def feed_module(digester: "Digester", module: types.ModuleType) -> None:
    """A package's by its version; the user's own by files. Values that were set from outside are
    not seen."""
    version = version_behind(module.__name__)
    if version is not None:
        digester.write("module", module.__name__, version)
    else:
        feed_files(digester, module.__name__)


def feed_files(digester: "Digester", name: str) -> None:
    """The source of a module of the user's own and of all that it imports, read and not run."""
    found: dict[str, Path] = {}
    waiting = [name]
    while waiting:
        each = waiting.pop()
        file = None if each in found or version_behind(each) else _source_of(each)
        if file is not None:
            found[each] = file
            changed = file.stat()
            waiting += _imports_of(each, file, changed.st_mtime_ns, changed.st_size)
    for each in sorted(found):
        digester.write("own module", each)
        digester.feed_file(found[each], f"the module {each}")


def _source_of(name: str) -> Path | None:
    """Of a package its ``__init__``; None for a name that is no module with a source."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        return _python_file(getattr(loaded, "__file__", None))
    spec = _find_spec(name, tuple(sys.path))
    return _python_file(spec.origin) if spec is not None else None


@functools.lru_cache(maxsize=4096)
def _find_spec(name: str, path: tuple[str, ...]) -> importlib.machinery.ModuleSpec | None:
    """Without importing the packages around it, as ``importlib.util.find_spec`` does."""
    package, _, _ = name.rpartition(".")
    if not package:
        return importlib.machinery.PathFinder.find_spec(name, list(path))
    around = _find_spec(package, path)
    places = around.submodule_search_locations if around is not None else None
    return importlib.machinery.PathFinder.find_spec(name, places) if places is not None else None


def _python_file(origin: object) -> Path | None:
    file = Path(origin) if isinstance(origin, str) else None
    return file if file is not None and file.suffix == ".py" and file.is_file() else None


@functools.lru_cache(maxsize=4096)
def _imports_of(name: str, file: Path, modified_ns: int, size: int) -> tuple[str, ...]:
    """Whatever its text imports, anywhere in it, in full names that may be modules."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    try:
        tree = ast.parse(file.read_bytes())
    except SyntaxError:
        return ()  # importing it will tell
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [node.module])])
            found += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return tuple(dict.fromkeys(filter(None, found)))
