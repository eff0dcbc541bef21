"""The key of a call, as a cache makes it."""

from collections.abc import Callable
from typing import Any

from hasten.data.cache.keys.files import FileDigests
from hasten.data.cache.keys.key import arguments_by_name, make_key


def key_of(builder: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    arguments = arguments_by_name(builder, args, kwargs)
    return make_key(builder, arguments, files=[], file_digests=FileDigests()).digest
