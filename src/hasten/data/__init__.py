"""Mechanisms that get data to the model, usable alone; they know no plan.

Names are resolved when they are first used: importing this imports neither numpy nor torch.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hasten.data.cache.cached import cached as cached
    from hasten.data.cache.dataset_cache import DatasetCache as DatasetCache
    from hasten.data.strings import Strings as Strings
    from hasten.report.building import BuildingBar as BuildingBar

_HOMES = {
    "BuildingBar": "hasten.report.building",
    "DatasetCache": "hasten.data.cache.dataset_cache",
    "Strings": "hasten.data.strings",
    "cached": "hasten.data.cache.cached",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'hasten.data' has no attribute {name!r}")
    globals()[name] = found = getattr(importlib.import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
