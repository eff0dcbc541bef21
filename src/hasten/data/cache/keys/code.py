"""Functions and classes: the user's own by their code and by all that it refers to, those of
packages by the package's version."""

import builtins
import functools
import hashlib
import importlib.util
import operator
import types
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hasten.data.cache.keys import classes, plain
from hasten.data.cache.keys.modules import feed_files, feed_module, with_packages
from hasten.data.cache.keys.packages import version_behind
from hasten.data.cache.keys.references import Import, references_of

if TYPE_CHECKING:
    from hasten.data.cache.keys.digester import Digester

C_FUNCTIONS = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
)
CYTHON = "cython_function_or_method"
"""The type of functions that Cython has made; each module has its own."""
NAMED = (types.FunctionType, types.ModuleType, type)
"""Which are told by their names and packages."""
GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)
MISSING = "a name that is not defined"


class Wrapper:
    """A callable of ours that counts as the function in it, and as the files that this reads."""

    function: Callable[..., Any]
    files: tuple[Path, ...]


def feed_code(digester: "Digester", value: Any, where: str) -> bool:
    if isinstance(value, types.FunctionType):
        if digester.is_new(value):
            _feed_function(digester, value, where)
    elif isinstance(value, type):
        if digester.is_new(value):
            classes.feed_class(digester, value, where)
    elif isinstance(value, types.ModuleType):
        if digester.is_new(value):
            feed_module(digester, value)
    elif isinstance(value, types.MethodType):
        digester.write("method")
        digester.feed(value.__func__, where)
        digester.feed(value.__self__, f"the object of {where}")
    elif isinstance(value, functools.partial):
        digester.write("partial")
        digester.feed(value.func, where)
        digester.feed((value.args, value.keywords), f"what {where} is bound to")
    elif isinstance(value, staticmethod | classmethod):
        digester.write(type(value).__name__)
        digester.feed(value.__func__, where)
    elif isinstance(value, property | functools.cached_property):
        functions = ("fget", "fset", "fdel") if isinstance(value, property) else ("func",)
        digester.write("property")
        digester.feed([getattr(value, name) for name in functions], where)
    elif isinstance(value, GETTERS):
        digester.write(type(value).__name__)
        digester.feed(value.__reduce__()[1], where)
    elif isinstance(value, C_FUNCTIONS) or type(value).__name__ == CYTHON:
        _feed_c_function(digester, value, where)
    elif isinstance(value, Wrapper):
        digester.feed(value.function, where)
        digester.feed(value.files, f"a file of {where}")
    elif hasattr(value, "__wrapped__") and version_behind(type(value).__module__):
        # Such as functools.lru_cache or a compiler of a package's, around a function.
        digester.write("wrapper", version_behind(type(value).__module__) or "")
        digester.feed(value.__wrapped__, where)
    else:
        return False
    return True


def _feed_function(digester: "Digester", function: types.FunctionType, where: str) -> None:
    # By its globals: functools.wraps gives a wrapper the module of what it wraps.
    version = version_behind(str(function.__globals__.get("__name__")))
    if version is not None:
        digester.write("function", version, function.__qualname__)
        _feed_own_among(digester, function, where)
        return
    digester.write("own function", function.__qualname__)
    digester.write("code", _digest_of_code(function.__code__))
    if function.__defaults__ or function.__kwdefaults__:
        digester.feed((function.__defaults__, function.__kwdefaults__), f"a default of {where}")
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        digester.write("closure", name)
        _feed_cell(digester, cell, f"{name!r}, which {where} closes over,")
    _feed_globals(digester, function, where)
    for each in references_of(function.__code__).imports:
        _feed_import(digester, each, function.__globals__)


@functools.lru_cache(maxsize=4096)
def _digest_of_code(code: types.CodeType) -> str:
    """What it does: no line numbers and no file names, so that it may be moved."""
    names = (code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    told = [code.co_code.hex(), code.co_exceptiontable.hex(), repr(names), repr(counts)]
    told += [_constant(each) for each in code.co_consts]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


def _constant(value: object) -> str:
    """One line each. Constants are plain, and their print is all that they are."""
    if isinstance(value, types.CodeType):
        return _digest_of_code(value)
    if isinstance(value, tuple):
        return f"({','.join(map(_constant, value))})"
    if isinstance(value, frozenset):  # which has another order in each process
        return f"{{{','.join(sorted(map(_constant, value)))}}}"
    return ascii(value)


def _feed_own_among(digester: "Digester", function: types.FunctionType, where: str) -> None:
    """What a package's wrapper holds, itself or in a dict or list: functions of the user's own,
    and what it was told, such as the type of ``torch.autocast``."""
    held = [cell.cell_contents for cell in function.__closure__ or () if _is_full(cell)]
    for each in (*held, *(function.__defaults__ or ()), getattr(function, "__wrapped__", None)):
        inside = list(each.values()) if isinstance(each, dict) else each
        for value in inside if isinstance(inside, list | tuple) else [each]:
            if _is_told(value):
                _feed_told(digester, value, where)
            elif hasattr(value, "__dict__") and not isinstance(value, NAMED):
                _feed_settings(digester, value, where)


def _feed_settings(digester: "Digester", value: object, where: str) -> None:
    """Of an object: its class where that is the user's own, and what is plain in it."""
    if _is_own(type(value)):
        digester.feed(type(value), f"the class of {where}")
    for name, each in vars(value).items():
        if _is_told(each):
            digester.write("setting", name)
            _feed_told(digester, each, f"{name!r} of {where}")


def _feed_told(digester: "Digester", value: object, where: str) -> None:
    if type(value) is str:
        digester.write("text", plain.FORMS[str](value))  # a package's word, and no file to look for
    else:
        digester.feed(value, where)


def _is_told(value: object) -> bool:
    kind = type(value)
    of_torch = kind.__module__ == "torch" and kind.__name__ in ("dtype", "device")
    return kind in plain.FORMS or of_torch or _is_own(value)


def _is_own(value: object) -> bool:
    """Whether it is code of the user's, or a package's that is bound to something of theirs."""
    if isinstance(value, types.FunctionType):
        closed = value.__closure__ or hasattr(value, "__wrapped__")
        return bool(closed) or version_behind(str(value.__globals__.get("__name__"))) is None
    if isinstance(value, types.MethodType):
        return _is_own(value.__func__) or version_behind(type(value.__self__).__module__) is None
    if isinstance(value, type):
        return version_behind(value.__module__) is None
    return isinstance(value, functools.partial | Wrapper)


def _feed_cell(digester: "Digester", cell: types.CellType, where: str) -> None:
    if _is_full(cell):
        digester.feed(cell.cell_contents, where)
    else:
        digester.write(MISSING)


def _is_full(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _feed_globals(digester: "Digester", function: types.FunctionType, where: str) -> None:
    for name, attributes in references_of(function.__code__).globals:
        digester.write("global", name)
        if name not in function.__globals__:
            # Python's own, which its version stands for, or nowhere to be found.
            digester.write("builtin" if hasattr(builtins, name) else MISSING, name)
            continue
        value = function.__globals__[name]
        shown = name
        for attribute in attributes:  # of the user's own modules, to the thing itself
            if isinstance(value, types.FunctionType) and attribute in vars(value):
                digester.feed(value, f"the global {shown!r}, which {where} uses,")
            elif not isinstance(value, types.ModuleType) or version_behind(value.__name__):
                break
            value = getattr(value, attribute, MISSING)
            shown = f"{shown}.{attribute}"
        digester.feed(value, f"the global {shown!r}, which {where} uses,")


def _feed_import(digester: "Digester", each: Import, namespace: dict[str, Any]) -> None:
    """Of the user's own modules the files, and those of what they import: importing them here
    would make every hit wait for what only building needs."""
    name = each.module
    if each.level:
        package = str(namespace.get("__package__") or "")
        try:
            name = importlib.util.resolve_name("." * each.level + name, package)
        except ImportError:
            digester.write(MISSING)  # as calling the function will tell
            return
    version = version_behind(name)
    digester.write("import", name, version or "")
    if version is not None:
        return
    inner = [f"{name}.{attribute}" for attribute in each.names]  # which may be modules too
    for module in [name, *inner] if inner else with_packages(name):
        feed_files(digester, module)


def _feed_c_function(digester: "Digester", value: Any, where: str) -> None:
    owner = getattr(value, "__self__", None)
    bound = owner is not None and not isinstance(owner, types.ModuleType)
    kind = getattr(value, "__objclass__", None) or (type(owner) if bound else None)
    module = kind.__module__ if kind else getattr(value, "__module__", None)
    version = version_behind(module) if module else None
    if version is None:
        digester.refuse(where, value, "is no code that can be read, of no package with a version")
    digester.write("c function", version, getattr(value, "__qualname__", repr(type(value))))
    if bound:
        digester.feed(owner, f"the object of {where}")
