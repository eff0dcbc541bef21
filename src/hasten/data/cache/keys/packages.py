"""Whose code a module is: Python's own, a package's with its version, or the user's."""

import functools
import importlib.machinery
import importlib.metadata
import importlib.util
import platform
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

INSTALLED = {"site-packages", "dist-packages"}
BY_VERSION = {"torch", "numpy"}
"""By their version wherever they lie: a torch built from its sources is not read through."""


def version_behind(module: str) -> str | None:
    """What stands for all code of a module, such as ``numpy 2.4.6``; None for the user's own."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names and _is_pythons(_file_of(top)):
        return f"python {platform.python_version()}"
    if top in BY_VERSION or _is_installed(_file_of(module)):
        version = package_version(top)
        return f"{top} {version}" if version else None
    return None


@functools.cache
def package_version(top: str) -> str | None:
    """As its metadata says, without importing it; None where nobody knows."""
    try:
        return importlib.metadata.version(top)
    except importlib.metadata.PackageNotFoundError:
        names = _distributions().get(top, [])
        if names:  # several, where they share a namespace
            return ", ".join(importlib.metadata.version(name) for name in sorted(set(names)))
    version = getattr(sys.modules.get(top), "__version__", None)
    return version if isinstance(version, str) else None


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    """By the modules in them. It reads all that is installed, which takes a while."""
    return importlib.metadata.packages_distributions()


@functools.cache
def _is_installed(file: str | None) -> bool:
    return file is not None and bool(INSTALLED & set(Path(file).parts))


@functools.cache
def _is_pythons(file: str | None) -> bool:
    """Not a file of the user's that has the name of one of Python's modules. Those in C have none
    to show."""
    if file is None or not Path(file).is_absolute():
        return True
    folders = [Path(sysconfig.get_path(each)).resolve() for each in ("stdlib", "platstdlib")]
    return not _is_installed(file) and any(map(Path(file).resolve().is_relative_to, folders))


def _file_of(module: str) -> str | None:
    """Without importing anything new."""
    loaded = sys.modules.get(module)
    if loaded is not None:
        return getattr(loaded, "__file__", None) or next(
            iter(getattr(loaded, "__path__", [])), None
        )
    spec = find_spec(module.partition(".")[0], tuple(sys.path))
    if spec is None:
        return None
    return spec.origin or next(iter(spec.submodule_search_locations or []), None)


@functools.lru_cache(maxsize=4096)
def find_spec(name: str, path: tuple[str, ...]) -> importlib.machinery.ModuleSpec | None:
    """Of a module on this ``sys.path``, without importing the packages around it, as importlib
    would. Packages that are installed in place may be known to importlib alone."""
    package, _, _ = name.rpartition(".")
    if not package:
        try:
            return importlib.util.find_spec(name)
        except ValueError:  # a module without a spec, such as one made by hand
            return None
    around = find_spec(package, path)
    places = around.submodule_search_locations if around is not None else None
    return importlib.machinery.PathFinder.find_spec(name, places) if places is not None else None
