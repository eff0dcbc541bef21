"""Modules that are used as a whole, or imported within a function: by their files."""

import ast
import functools
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING

from hasten.data.cache.keys.packages import find_spec, version_behind

if TYPE_CHECKING:
    from hasten.data.cache.keys.digester import Digester


_LOADED: dict[str, tuple[object, str]] = {}
"""Modules that were loaded when they were first told: the spec, which is another one after a
reload, and the digest of the file."""


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
            if file.suffix == ".py":
                changed = file.stat()
                waiting += _imports_of(each, file, changed.st_mtime_ns, changed.st_size)
    for each in sorted(found):
        digester.write("own module", each)
        digester.feed_file(found[each], f"the module {each}")
        _feed_loaded(digester, each, digester.files[found[each]].sha256)


def with_packages(name: str) -> list[str]:
    """What ``import a.b.c`` gives the name ``a`` for: it, and the packages around it."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(len(parts), 0, -1)]


def _feed_loaded(digester: "Digester", name: str, sha256: str) -> None:
    """A file that was edited since its module was loaded is not what will run."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    if spec is None:
        return
    if name not in _LOADED or _LOADED[name][0] is not spec:
        _LOADED[name] = (spec, sha256)
    if _LOADED[name][1] != sha256:
        digester.write("loaded as", _LOADED[name][1])


def _source_of(name: str) -> Path | None:
    """Of a package its ``__init__``, of a compiled module the binary; None for a name that is no
    module with a file."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        origin = getattr(loaded, "__file__", None)
    else:
        spec = find_spec(name, tuple(sys.path)) if name else None
        origin = spec.origin if spec is not None else None
    file = Path(origin) if isinstance(origin, str) else None
    return file if file is not None and file.is_file() else None


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
            found += [each for alias in node.names for each in with_packages(alias.name)]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [node.module])])
            found += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return tuple(dict.fromkeys(filter(None, found)))
