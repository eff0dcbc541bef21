"""Classes: bases, methods, values, in the order in which they were written."""

import dataclasses
import enum
import types
from typing import TYPE_CHECKING, Any

from hasten.data.cache.keys import plain
from hasten.data.cache.keys.packages import version_behind

if TYPE_CHECKING:
    from hasten.data.cache.keys.digester import Digester

GENERATED = "<string>"
"""Where dataclasses and named tuples say that their methods come from: their fields tell all. It is
where the user's own code comes from too, of ``python -c``."""
PYTHONS_OWN = {"__module__", "__qualname__", "__doc__", "__firstlineno__"}
DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)


def feed_class(digester: "Digester", kind: type, where: str) -> None:
    version = version_behind(kind.__module__)
    if version is not None:
        digester.write("class", version, kind.__qualname__)
        return
    digester.write("own class", kind.__qualname__)
    digester.feed(kind.__bases__, f"a base of {where}")
    digester.feed(type(kind), f"the metaclass of {where}")
    if issubclass(kind, enum.Enum):
        members = [(name, member.value) for name, member in kind.__members__.items()]
        digester.feed(members, f"a member of {where}")
    if dataclasses.is_dataclass(kind):
        for each in dataclasses.fields(kind):
            _feed_field(digester, each, f"the field {each.name!r} of {where}")
    for name, value in vars(kind).items():
        if _is_told(kind, name, value):
            digester.write("attribute", name)
            digester.feed(value, f"{kind.__qualname__}.{name}")


def _is_told(kind: type, name: str, value: Any) -> bool:
    """Not what Python and others put there themselves."""
    if isinstance(value, types.FunctionType):
        return not _is_generated(kind, value)
    if isinstance(value, staticmethod | classmethod | property):
        return True
    if isinstance(value, DESCRIPTORS) or name == "_abc_impl" or name in PYTHONS_OWN:
        return False
    if issubclass(kind, enum.Enum) and (name.startswith("_") or name in kind.__members__):
        return False
    if name.startswith("__") and name.endswith("__"):
        return name == "__slots__" or callable(value) or type(value) in plain.FORMS
    return type(value).__name__ != "_tuplegetter"


def _is_generated(kind: type, function: types.FunctionType) -> bool:
    """Its code has the name that the generator gave it, not that of a method."""
    code = function.__code__
    return (
        (dataclasses.is_dataclass(kind) or issubclass(kind, tuple))
        and code.co_filename == GENERATED
        and code.co_qualname != function.__qualname__
    )


def _feed_field(digester: "Digester", field: "dataclasses.Field[Any]", where: str) -> None:
    digester.write("field", field.name, str((field.init, field.compare, field.kw_only)))
    for value in (field.default, field.default_factory):
        if value is dataclasses.MISSING:
            digester.write("no default")
        else:
            digester.feed(value, where)
