"""``cached``: a function whose results are kept."""

import functools
import os
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, overload

from hasten.data.cache.dataset_cache import DatasetCache
from hasten.data.cache.keys.code import Wrapper
from hasten.data.cache.keys.key import arguments_by_name

P = ParamSpec("P")
R = TypeVar("R")


class Cached(Wrapper, Generic[P, R]):
    """Called as the function that it wraps."""

    def __init__(
        self,
        function: Callable[P, R],
        cache: DatasetCache | None,
        key: Callable[..., object] | None,
        files: Iterable[str | os.PathLike[str]],
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.cache = cache or default_cache()
        self._key = key
        self.files = tuple(Path(each) for each in files)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._key is not None:
            arguments = {"key=": (self._key, self._key(*args, **kwargs))}
        else:
            arguments = arguments_by_name(self.function, args, kwargs)
        result: R = self.cache.look_up(
            self.function, arguments, lambda _: self.function(*args, **kwargs), self.files
        )
        return result

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """As a method: the object is its first argument, and part of the key."""
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> str:
        """By its name, as a function: for other processes."""
        return self.function.__qualname__


@functools.cache
def default_cache() -> DatasetCache:
    return DatasetCache()


@overload
def cached(
    function: None = None,
    /,
    *,
    cache: DatasetCache | None = ...,
    key: Callable[..., object] | None = ...,
    files: Iterable[str | os.PathLike[str]] = ...,
) -> Callable[[Callable[P, R]], Cached[P, R]]: ...
@overload
def cached(
    function: Callable[P, R],
    /,
    *,
    cache: DatasetCache | None = ...,
    key: Callable[..., object] | None = ...,
    files: Iterable[str | os.PathLike[str]] = ...,
) -> Cached[P, R]: ...
def cached(
    function: Callable[P, R] | None = None,
    /,
    *,
    cache: DatasetCache | None = None,
    key: Callable[..., object] | None = None,
    files: Iterable[str | os.PathLike[str]] = (),
) -> Any:
    """Keep what a function returns: arrays, tensors, ``Strings``, plain numbers and texts, and
    dicts, lists and tuples of these. The next call with the same code, arguments and versions
    gets it memory-mapped, in this process or another.

    ``key`` is called with the arguments and tells what of them decides the result, for arguments
    that have no digest. ``files`` are read by the function without being arguments of it.
    """
    if function is None:
        return lambda each: Cached(each, cache, key, files)
    return Cached(function, cache, key, files)
