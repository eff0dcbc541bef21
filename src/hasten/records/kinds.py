"""Values and the types of fields in words, for errors and for pages; and for a value that a field
does not take the nearest one that it does."""

import datetime
import difflib
import json
import types
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

SHOWN_CHARACTERS = 80
DATES = datetime.date | datetime.time
SCALARS = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}
"""For the types of JSON Schema."""
VALUES: tuple[tuple[Any, str], ...] = (
    (bool, "a boolean"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "text"),
    (list, "a list"),
    (dict, "a table"),
    (DATES, "a date or time"),
)


def takes(kind: Any) -> str:
    """What a field of this type may hold."""
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(takes(each) for each in get_args(kind))
    if known := known_values(kind):
        return " or ".join(shown(each) for each in known)
    if get_origin(kind) is list:
        return f"a list ({takes(get_args(kind)[0])} each)"
    schema = msgspec.json.schema(kind)
    words = "a table" if "$ref" in schema else SCALARS.get(schema.get("type", ""), str(schema))
    if "pattern" in schema:
        return f"{words} of the form {schema['pattern'].strip('^$')}"
    low, high = _limits(kind)
    if (low, high) == (-(2**63), 2**63 - 1):
        return f"{words} of 64 bits"
    if low is not None and high is not None:
        return f"{words}, {low:,} to {high:,}"
    return words if low is None else f"{words}, {low:,} or more"


def known_values(kind: Any) -> list[Any]:
    """Those of a type that has only some; as they stand in a file."""
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return [each.value for each in kind] if _is_enum(kind) else []


def fault(value: object, kind: Any) -> str:
    """Why this type does not take the value."""
    if known_values(kind):
        return "is not known"
    words = next((words for each, words in VALUES if isinstance(value, each)), "null")
    return "is not allowed" if words in takes(kind) else f"is {words}"


def shown(value: object) -> str:
    """As a file has it, on one line that a terminal can show; long ones in part."""
    if isinstance(value, str):
        cut = value[:SHOWN_CHARACTERS]
        text = json.dumps(cut, ensure_ascii=not cut.isprintable())
        return text if cut == value else f"{text}..."
    text = json.dumps(value) if isinstance(value, bool) else repr(value)
    text = str(value) if isinstance(value, DATES) else text
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


def nearest(value: object, kind: Any) -> bool | int | float | str | None:
    """The value of this type that was most likely meant; None where that is anyone's guess."""
    near = _near_known(value, kind) if known_values(kind) else _near_plain(value, kind)
    try:
        msgspec.convert(near, kind)
    except msgspec.ValidationError:
        return None
    return near


def _near_known(value: object, kind: Any) -> Any:
    words = {str(each).casefold(): each for each in known_values(kind)}
    near = difflib.get_close_matches(str(value).casefold()[:SHOWN_CHARACTERS], words, n=1)
    return words[near[0]] if near else None


def _near_plain(value: object, kind: Any) -> bool | int | float | str | None:
    plain = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    if not isinstance(value, str | int | float):
        return None
    if plain is bool:
        return {"true": True, "1": True, "false": False, "0": False}.get(str(value).casefold())
    if plain is str:
        return None if isinstance(value, bool) else str(value)
    return _near_number(value, kind, plain) if plain in (int, float) else None


def _near_number(value: str | int | float, kind: Any, plain: type) -> int | float | None:
    try:
        number = float(value) if plain is float or isinstance(value, str) else value
        number = number if plain is float else round(number)
    except (ValueError, OverflowError):
        return None
    low, high = _limits(kind)
    number = number if low is None else max(number, low)
    return number if high is None else min(number, high)


def _limits(kind: Any) -> tuple[Any, Any]:
    schema = msgspec.json.schema(kind)
    return schema.get("minimum"), schema.get("maximum")


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)
