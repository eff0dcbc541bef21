"""The base of every record, and its way into and out of JSON and TOML.

Records are closed: an unknown key is an error that names the nearest known one. No torch here.
"""

import difflib
import hashlib
import re
import tomllib
from collections.abc import Iterable
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import tomli_w

from hasten.errors import HastenError
from hasten.records.kinds import SHOWN_CHARACTERS, fault, known_values, nearest, shown, takes

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


def parse_toml(text: str, *, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also numbers and nesting without end
        fix = _mend_toml(text, str(error))
        raise HastenError(f"{where} is not TOML: {error}.", fix=fix) from error


def from_builtins(raw: object, kind: type[T], *, where: str, path: str = "") -> T:
    """Decode plain dicts and lists; every error says where, what stands there and what may."""
    _refuse_unknown_keys(raw, kind, where, path)
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        problem, fix = _misfit(raw, kind, path)
        raise HastenError(f"{where}: {problem}.", fix=fix) from error


def _mend_toml(text: str, said: str) -> str:
    """Shows the line that is named; tomllib itself tells only its number."""
    place = re.search(r"at line (\d+)", said)
    if place is None:
        return "Give a file that hasten wrote."
    line = "".join(text.split("\n")[int(place[1]) - 1 :][:1]).strip()[:SHOWN_CHARACTERS]
    hint = " Text stands in quotes, true and false without." if "Invalid value" in said else ""
    return f"Mend that line: {line if line.isprintable() else shown(line)}.{hint}"


def unknown_name(
    what: str, name: str, known: Iterable[str], *, where: str = "", path: str = "", all_: str = ""
) -> HastenError:
    """The error for a name that nobody knows: shows the nearest known one, or all of them. Where
    these are too many to be read, ``all_`` says what lists them."""
    names = sorted(known)
    name = name if len(name) <= SHOWN_CHARACTERS else f"{name[:SHOWN_CHARACTERS]}..."
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    fix = all_ or f"Known: {', '.join(names) or 'none'}."
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
        known = branch.__struct_encode_fields__
        unknown = [str(key) for key in raw if key not in known]
        if unknown and not known:
            at = _dotted(path, unknown[0])
            fix = f"Take it out: {path} has no settings."
            raise HastenError(f"{where}: key {at!r} is not known.", fix=fix)
        if unknown:
            raise unknown_name("key", unknown[0], known, where=where, path=path)
    for at, value, inner in _children(raw, branch, path):
        _refuse_unknown_keys(value, inner, where, at)


def _misfit(raw: object, kind: Any, path: str) -> tuple[str, str]:
    """What is wrong with the innermost value that does not fit, with its path; what to do."""
    branch = _branch(raw, kind)
    for at, value, inner in _children(raw, branch, path):
        try:
            msgspec.convert(value, inner)
        except msgspec.ValidationError:
            return _misfit(value, inner, at)
    if isinstance(raw, dict) and _is_record(branch):
        return _misfit_of_keys(raw, branch, path)
    value = f"{path} = {shown(raw)}" if path else "the top level"
    return f"{value} {fault(raw, kind)}; it takes {takes(kind)}", _mend(raw, kind, path)


def _misfit_of_keys(raw: dict[str, Any], kind: Any, path: str) -> tuple[str, str]:
    """Of a record whose values all fit: one is missing, or they do not go together."""
    for field in msgspec.structs.fields(kind):
        if field.required and field.encode_name not in raw:
            missing = _dotted(path, field.encode_name)
            return f"key {missing!r} is missing", "Add it, or have the file written anew."
    try:
        msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        return f"{path}: {error}", "Change one of them, or take it out."
    raise AssertionError("called for a value that does not fit")


def _mend(raw: object, kind: Any, path: str) -> str:
    near = nearest(raw, kind)
    if near is not None:
        return f"Write {shown(near)}."
    if path and takes(kind) == "a table":
        return f"In TOML that is a line [{path}], with its keys below it."
    return "Write one of these." if known_values(kind) else "Write a value of that kind."


def _children(raw: object, branch: Any, path: str) -> list[tuple[str, Any, Any]]:
    """Path, value and type of each thing inside a record, a dict or a list."""
    arguments = get_args(branch)
    if isinstance(raw, list) and _is_list(branch):
        return [(f"{path}[{index}]", value, arguments[0]) for index, value in enumerate(raw)]
    if isinstance(raw, dict) and get_origin(branch) is dict:
        return [(_dotted(path, str(key)), value, arguments[1]) for key, value in raw.items()]
    if isinstance(raw, dict) and _is_record(branch):
        hints = get_type_hints(branch, include_extras=True)
        kinds = {each.encode_name: hints[each.name] for each in msgspec.structs.fields(branch)}
        return [(_dotted(path, key), value, kinds[key]) for key, value in raw.items()]
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
