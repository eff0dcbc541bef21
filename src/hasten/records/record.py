"""The base of every record, and its way into and out of JSON and TOML.

Records are closed: an unknown key is an error that names the nearest known one. No torch here.
"""

import difflib
import hashlib
import tomllib
from collections.abc import Iterable
from typing import Any, TypeVar

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
    except msgspec.DecodeError as error:
        raise HastenError(f"{where} is not JSON: {error}.", fix="Write the file anew.") from error
    return from_builtins(raw, kind, where=where)


def to_toml(record: object) -> str:
    """TOML has no null, so a key that is None is left out and read back as its default."""
    return tomli_w.dumps(_without_none(msgspec.to_builtins(record)))


def from_toml(text: str, kind: type[T], *, where: str) -> T:
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise HastenError(f"{where} is not TOML: {error}.", fix="Mend that line.") from error
    return from_builtins(raw, kind, where=where)


def from_builtins(raw: object, kind: type[T], *, where: str, path: str = "") -> T:
    """Decode plain dicts and lists; every error says where, what stands there and what may."""
    _refuse_unknown_keys(raw, kind, where, path)
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        problem, _, at = str(error).partition(" - at ")
        key = _dotted(path, at.strip("`").removeprefix("$").removeprefix("."))
        raise HastenError(f"{where}: {key or 'the top level'}: {problem}.") from error


def unknown_name(what: str, name: str, known: Iterable[str], *, where: str = "") -> HastenError:
    """The error for a name that nobody knows: shows the nearest known one, or all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    fix = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(names) or 'none'}."
    return HastenError(f"{where + ': ' if where else ''}{what} {name!r} is not known.", fix=fix)


def digest_of(record: object) -> str:
    return hashlib.sha256(msgspec.json.encode(record, order="sorted")).hexdigest()


def _refuse_unknown_keys(raw: object, kind: object, where: str, path: str) -> None:
    """Walk value and type together, so that the error can name the full path and a near key."""
    info = kind if isinstance(kind, msgspec.inspect.Type) else msgspec.inspect.type_info(kind)
    if isinstance(info, msgspec.inspect.UnionType):
        structs = [t for t in info.types if isinstance(t, msgspec.inspect.StructType)]
        if len(structs) == 1 and isinstance(raw, dict):
            _refuse_unknown_keys(raw, structs[0], where, path)
    elif isinstance(info, msgspec.inspect.StructType) and isinstance(raw, dict):
        fields = {field.encode_name: field.type for field in info.fields}
        for key, value in raw.items():
            if key not in fields:
                raise unknown_name(
                    "key", _dotted(path, str(key)), _under(path, fields), where=where
                )
            _refuse_unknown_keys(value, fields[key], where, _dotted(path, key))
    elif isinstance(info, msgspec.inspect.DictType) and isinstance(raw, dict):
        for key, value in raw.items():
            _refuse_unknown_keys(value, info.value_type, where, _dotted(path, str(key)))
    elif isinstance(info, msgspec.inspect.VarTupleType | msgspec.inspect.ListType) and isinstance(
        raw, list
    ):
        for index, value in enumerate(raw):
            _refuse_unknown_keys(value, info.item_type, where, f"{path}[{index}]")


def _under(path: str, names: Iterable[str]) -> list[str]:
    return [_dotted(path, name) for name in names]


def _dotted(path: str, key: str) -> str:
    return f"{path}.{key}" if path and key else path or key


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return value
