"""Values that are their own digest: numbers, texts, times."""

import datetime
import decimal
import fractions
import logging
import struct
import threading
import types
import zoneinfo
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hasten.data.cache.keys.files import names_here, what_it_names

if TYPE_CHECKING:
    from hasten.data.cache.keys.digester import Digester

MANY = 10
"""Texts: to look for each in the folder where we are would take longer than to list that."""
NOT_SEEN = "whose files would change unseen: name them, for example by sorted(glob.glob(...))"
ZONES = (type(None), datetime.timezone, zoneinfo.ZoneInfo)


def _float(value: float) -> bytes:
    """The bits: -0.0 is not 0.0, and a nan is itself."""
    return struct.pack("<d", value)


def _text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _printed(value: object) -> str:
    return repr(value)


FORMS: dict[type, Callable[[Any], bytes | str]] = {
    type(None): lambda _: "",
    bool: lambda value: str(int(value)),
    int: lambda value: format(value, "x"),  # without a limit of digits
    float: _float,
    complex: lambda value: _float(value.real) + _float(value.imag),
    str: _text,
    bytes: bytes,
    bytearray: bytes,
    type(Ellipsis): lambda _: "",
    type(NotImplemented): lambda _: "",
    range: _printed,
    datetime.date: _printed,
    datetime.timedelta: _printed,
    datetime.timezone: _printed,
    decimal.Decimal: _printed,
    fractions.Fraction: _printed,
    # What a logger writes and a lock guards is no part of a result.
    logging.Logger: lambda value: value.name,
    type(threading.Lock()): lambda _: "",
    type(threading.RLock()): lambda _: "",
}
"""By the exact type: a subclass may hold more. Only of types whose print is all that they are."""


def is_time(value: object) -> bool:
    """Of a zone that its name tells all about."""
    return type(value) in (datetime.datetime, datetime.time) and type(value.tzinfo) in ZONES  # type: ignore[attr-defined]


def feed_texts(digester: "Digester", texts: Sequence[str], where: str) -> None:
    """All at once, since there may be a million."""
    encoded = [_text(each) for each in texts]
    digester.write("texts", repr([len(each) for each in encoded]), b"".join(encoded))
    feed_files_named(digester, texts, where)


def feed_files_named(digester: "Digester", texts: Sequence[str], where: str) -> None:
    here = names_here() if len(texts) > MANY else None
    for place, text in enumerate(texts):
        if here is None or text in here or "/" in text:
            feed_file_named(digester, text, f"{where}[{place}]")


def feed_file_named(digester: "Digester", text: str, where: str) -> None:
    named = what_it_names(text)
    if named == "file":
        digester.feed_file(Path(text), where)
    elif named == "folder":
        digester.refuse(where, text, f"names the folder {text!r:.200}, {NOT_SEEN}")


def printed_whole(value: object) -> bool:
    """Types of typing, which code names at run time in casts only."""
    return type(value).__module__ == "typing" or isinstance(
        value, types.GenericAlias | types.UnionType
    )
