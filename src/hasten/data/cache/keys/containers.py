"""Things made of other things: each by what is in it, and by its class where that has code."""

import collections
import dataclasses
import enum
import io
import re
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from hasten.data.cache.keys import plain
from hasten.data.strings import Strings

if TYPE_CHECKING:
    from hasten.data.cache.keys.digester import Digester

DICTIONARIES = (dict, collections.OrderedDict, collections.Counter, collections.defaultdict)
SEQUENCES = (list, tuple, collections.deque)


def feed_container(digester: "Digester", value: Any, where: str) -> bool:
    kind = type(value)
    if kind in SEQUENCES:
        _feed_items(digester, kind.__name__, value, where)
        if kind is collections.deque:
            digester.write("at most", str(value.maxlen))
    elif kind in DICTIONARIES:
        _feed_dictionary(digester, value, where)
    elif kind in (set, frozenset):
        _feed_set(digester, value, where)
    elif kind is slice:
        digester.write("slice")
        digester.feed((value.start, value.stop, value.step), where)
    elif isinstance(value, PurePath):
        digester.write("path", str(value))
        digester.feed_file(Path(value), where)
    elif isinstance(value, io.TextIOWrapper | io.BufferedReader | io.FileIO):
        _feed_open_file(digester, value, where)
    elif isinstance(value, enum.Enum):
        digester.write("member", str(value.name))
        digester.feed(kind, f"the class of {where}")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        _feed_fields(digester, value, where)
    elif isinstance(value, tuple) and hasattr(kind, "_fields"):
        digester.feed(kind, f"the class of {where}")
        _feed_items(digester, "named", tuple(value), where)
    elif isinstance(value, Strings):
        start, end = value.offsets[0], value.offsets[-1]
        digester.write("strings")
        digester.feed([value.offsets - start, value.data[start:end]], where)
        plain.feed_files_named(digester, value, where)
    elif isinstance(value, re.Pattern):
        digester.write("pattern", str(value.flags))
        digester.feed(value.pattern, where)
    elif plain.is_time(value) or plain.printed_whole(value):
        digester.write("printed", repr(value))
    else:
        return False
    return True


def _feed_items(digester: "Digester", tag: str, items: Any, where: str) -> None:
    digester.write(tag, str(len(items)))
    if set(map(type, items)) == {str}:
        plain.feed_texts(digester, items, where)
        return
    with digester.inside(items) as fresh:
        for place, item in enumerate(items if fresh else ()):
            digester.feed(item, f"{where}[{place}]")


def _feed_dictionary(digester: "Digester", value: dict[Any, Any], where: str) -> None:
    """In its own order, which the result may depend on."""
    digester.write(type(value).__name__, str(len(value)))
    if isinstance(value, collections.defaultdict):
        digester.feed(value.default_factory, f"the default of {where}")
    with digester.inside(value) as fresh:
        for key, item in value.items() if fresh else ():
            digester.feed(key, f"a key of {where}")
            digester.feed(item, f"{where}[{key!r:.40}]")


def _feed_set(digester: "Digester", value: Any, where: str) -> None:
    """Sorted: a set has another order in each process."""
    digester.write(type(value).__name__, str(len(value)))
    with digester.inside(value) as fresh:
        members = value if fresh else ()
        for each in sorted(digester.apart(item, f"a member of {where}") for item in members):
            digester.write("member", each)


def _feed_open_file(digester: "Digester", file: Any, where: str) -> None:
    if not isinstance(getattr(file, "name", None), str) or not file.readable():
        digester.refuse(where, file, "is not a file that can be read again")
    digester.write("open", file.mode, getattr(file, "encoding", ""), str(file.tell()))
    digester.feed_file(Path(file.name), where)


def _feed_fields(digester: "Digester", value: Any, where: str) -> None:
    digester.feed(type(value), f"the class of {where}")
    names = [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]
    names += sorted(set(getattr(value, "__dict__", {})) - set(names))
    with digester.inside(value) as fresh:
        for name in names if fresh else ():
            digester.write("field", name)
            digester.feed(getattr(value, name), f"{where}.{name}")
