"""The key of a call: its builder, its arguments, and the versions under both."""

import inspect
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hasten import __version__
from hasten.data.cache.keys.digester import Digester
from hasten.data.cache.keys.files import FileDigests, Remembered
from hasten.data.cache.keys.packages import package_version
from hasten.data.cache.keys.settings import feed_settings
from hasten.records.cache import CACHE_FORMAT


class Key(NamedTuple):
    digest: str
    builder: str
    files: Mapping[Path, Remembered]
    """The files that it depends on, as they were."""


def versions() -> dict[str, str]:
    """What any result may depend on."""
    return {
        "hasten": __version__,
        "python": platform.python_version(),
        "numpy": package_version("numpy") or "unknown",
        "torch": package_version("torch") or "unknown",
    }


def make_key(
    builder: Callable[..., Any],
    arguments: Mapping[str, Any],
    *,
    files: Iterable[Path],
    file_digests: FileDigests,
) -> Key:
    """``arguments`` by name: whatever decides the result besides the builder's code."""
    name = builder_name(builder)
    digester = Digester(file_digests)
    digester.write("key", str(CACHE_FORMAT), sys.byteorder, repr(versions()), name)
    feed_settings(digester)
    digester.feed(builder, f"the builder {name}")
    for argument, value in arguments.items():
        digester.write("argument", argument)
        digester.feed(value, f"argument {argument!r} of {name}")
    for path in files:
        digester.feed(path, "a file of files=")
    return Key(digester.hexdigest(), name, digester.files)


def builder_name(builder: Callable[..., Any]) -> str:
    inner = getattr(builder, "func", builder)  # of a partial
    module, name = getattr(inner, "__module__", None), getattr(inner, "__qualname__", None)
    return f"{module}.{name}" if name else type(builder).__qualname__


def arguments_by_name(
    builder: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """By name, with their defaults: the same call has one key, however it is written."""
    try:
        # Its own signature: a decorator may have other defaults than what it wraps.
        bound = inspect.signature(builder, follow_wrapped=False).bind(*args, **kwargs)
    except ValueError:  # a function in C that does not tell
        return {"args": args, "kwargs": kwargs}
    bound.apply_defaults()
    return dict(bound.arguments)
