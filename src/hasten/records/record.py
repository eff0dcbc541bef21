"""The base of every record, and its way into and out of JSON and TOML.

Records are closed: an unknown key is an error that names the nearest known one. No torch here.
"""

import difflib
import enum
import hashlib
import re
import tomllib
from collections.abc import Iterable
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import tomli_w

from hasten.errors import HastenError

T = TypeVar("T")


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value that crosses rooms or is written to a file; never changed after it is made."""


def to_json(record: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=1)


def from_json(text: bytes, kind: type[T], *, where: str) -> T:
    try:
        raw = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise HastenError(f"{where} is not JSON: {error}.", fix="Write the file anew.") from error
    return from_builtins(raw, kind, where=where)


def to_toml(record: object) -> str:
    """TOML has no null, so a key that is None is left out and read back as its default."""
    return tomli_w.dumps(_without_none(msgspec.to_builtins(record)))


def from_toml(text: str, kind: type[T], *, where: str) -> T:
    return from_builtins(parse_toml(text, where=where), kind, where=where)


def parse_toml(text: str, *, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also numbers and nesting without end
        raise HastenError(f"{where} is not TOML: {error}.", fix="Mend that line.") from error


def from_builtins(raw: object, kind: type[T], *, where: str, path: str = "") -> T:
    """Decode plain dicts and lists; every error says where, what stands there and what may."""
    _refuse_unknown_keys(raw, kind, where, path)
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        at, problem, fix = _misfit(raw, kind, path)
        raise HastenError(f"{where}: {at or 'the top level'}: {problem}.", fix=fix) from error


def unknown_name(
    what: str, name: str, known: Iterable[str], *, where: str = "", path: str = ""
) -> HastenError:
    """The error for a name that nobody knows: shows the nearest known one, or all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    fix = f"Known: {', '.join(names) or 'none'}."
    if near:
        fix = f"Did you mean {_dotted(path, near[0])!r}?"
    full = _dotted(path, name) if path else name
    return HastenError(f"{where + ': ' if where else ''}{what} {full!r} is not known.", fix=fix)


def digest_of(record: object) -> str:
    return hashlib.sha256(msgspec.json.encode(record, order="sorted")).hexdigest()


def _refuse_unknown_keys(raw: object, kind: Any, where: str, path: str) -> None:
    """Walk value and type together, so that the error can name the full path and a near key."""
    branch = _branch(raw, kind)
    if isinstance(raw, dict) and _is_record(branch):
        known = branch.__struct_fields__
        unknown = [str(key) for key in raw if key not in known]
        if unknown:
            raise unknown_name("key", unknown[0], known, where=where, path=path)
    for at, value, inner in _children(raw, branch, path):
        _refuse_unknown_keys(value, inner, where, at)


def _misfit(raw: object, kind: Any, path: str) -> tuple[str, str, str]:
    """Full path of the innermost value that does not fit, what is wrong with it, what to do."""
    for at, value, inner in _children(raw, _branch(raw, kind), path):
        try:
            msgspec.convert(value, inner)
        except msgspec.ValidationError:
            return _misfit(value, inner, at)
    try:
        msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        return path, *_problem(raw, kind, str(error).partition(" - at ")[0])
    raise AssertionError("called for a value that does not fit")


def _problem(raw: object, kind: Any, said: str) -> tuple[str, str]:
    """What is wrong, with the value, and what to do; ``said`` are the words of msgspec."""
    if known := _known_values(kind):
        return f"{raw!r:.80} is not known; it is one of {', '.join(known)}", "Use one of these."
    if "missing required field" in said:
        return said, "Add it, or have the file written anew."
    shown = f" ({raw!r:.80})" if isinstance(raw, str | int | float) else ""
    return f"{said}{shown}", "Write a value of that kind."


def _known_values(kind: Any) -> list[str]:
    if get_origin(kind) is Literal:
        return [str(each) for each in get_args(kind)]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return [str(each.value) for each in kind]
    return []


def _children(raw: object, branch: Any, path: str) -> list[tuple[str, Any, Any]]:
    """Path, value and type of each thing inside a record, a dict or a list."""
    arguments = get_args(branch)
    if isinstance(raw, list) and _is_list(branch):
        return [(f"{path}[{index}]", value, arguments[0]) for index, value in enumerate(raw)]
    if isinstance(raw, dict) and get_origin(branch) is dict:
        return [(_dotted(path, str(key)), value, arguments[1]) for key, value in raw.items()]
    if isinstance(raw, dict) and _is_record(branch):
        hints = get_type_hints(branch, include_extras=True)
        return [(_dotted(path, key), value, hints[key]) for key, value in raw.items()]
    return []


def _branch(raw: object, kind: Any) -> Any:
    """The one type of a union that may hold such a value; the union itself where none may."""
    if get_origin(kind) not in (Union, UnionType):
        return kind
    fits = [each for each in get_args(kind) if _may_hold(each, raw)]
    return fits[0] if len(fits) == 1 else kind


def _may_hold(kind: Any, raw: object) -> bool:
    if isinstance(raw, dict):
        return get_origin(kind) is dict or _is_record(kind)
    return isinstance(raw, list) and _is_list(kind)


def _is_list(kind: Any) -> bool:
    return get_origin(kind) is list or (
        get_origin(kind) is tuple and get_args(kind)[-1] is Ellipsis
    )


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _dotted(path: str, key: str) -> str:
    shown = key if re.fullmatch(r"[\w-]+", key) else repr(key)  # control characters stay inert
    return f"{path}.{shown}" if path else shown


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return value
