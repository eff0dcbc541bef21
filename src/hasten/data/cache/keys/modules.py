"""Modules that are used as a whole, by their files."""

import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING

from hasten.data.cache.keys.packages import version_behind

if TYPE_CHECKING:
    from hasten.data.cache.keys.digester import Digester


def feed_module(digester: "Digester", module: types.ModuleType) -> None:
    """A package's by its version; the user's own by its source and by that of all modules of
    theirs that it takes something from. Values that were set from outside are not seen."""
    version = version_behind(module.__name__)
    if version is not None:
        digester.write("module", module.__name__, version)
        return
    for each in _reachable(module):
        file = getattr(each, "__file__", None)
        digester.write("own module", each.__name__)
        if file is not None:
            digester.feed_file(Path(file), f"the module {each.__name__}")


def _reachable(module: types.ModuleType) -> list[types.ModuleType]:
    found = {module.__name__: module}
    waiting = [module]
    while waiting:
        for value in list(vars(waiting.pop()).values()):
            name = value.__name__ if isinstance(value, types.ModuleType) else _home(value)
            other = sys.modules.get(name)
            if other is not None and name not in found and version_behind(name) is None:
                found[name] = other
                waiting.append(other)
    return [found[name] for name in sorted(found)]


def _home(value: object) -> str:
    name = getattr(value, "__module__", None)
    return name if isinstance(name, str) else ""
