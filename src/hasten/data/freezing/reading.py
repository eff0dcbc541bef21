"""Reads the code that makes a dataset's items, for what no sampling can rule out.

All functions that an item may come from are read: those of the dataset's class, of everything that
the dataset holds, and of what these name. A method is read where its name occurs. Doubted are
random numbers, the time, the process, assignments to what lives on from item to item, and code that
cannot be read. Libraries that are known are trusted but for certain names (``known.py``).

Limits: names are followed, not values. An object that comes out of a trusted library is trusted,
and what is written to through a name that is not plainly a second one is not seen here; the items
are read twice for that.
"""

import collections.abc
import functools
import random
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from hasten.data.freezing import known
from hasten.data.freezing.bodies import Outside, read_body
from hasten.data.freezing.doubt import Doubt, Doubts, MayDraw
from hasten.data.freezing.owned import PLAIN, everything_in, is_handle

MOST_FUNCTIONS = 2000
ROUTINES = (
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    np.ufunc,
    type(np.sort),
    type(np.random.default_rng),  # any function that Cython made
)
"""Functions that are not Python's own, and any that are bound."""
DESCRIPTORS = (staticmethod, classmethod, property, functools.cached_property)
UNCALLED = known.words(
    "__init__ __new__ __post_init__ __repr__ __str__ __eq__ __ne__ __hash__ __lt__ __le__ __gt__"
    " __ge__ __reduce__ __reduce_ex__ __getstate__ __setstate__ __del__ __copy__ __deepcopy__"
    " __init_subclass__ __class_getitem__ __setattr__ __delattr__ __replace__ __dir__ __doc__"
    " __module__ __annotations__ __dict__ __weakref__ __slots__ __qualname__ __format__ __sizeof__"
    " __subclasshook__"
)
"""Methods that making an item does not call, unless their name occurs."""
MADE = frozenset({"__init__", "__new__", "__post_init__"})
ASKED_OF_A_DATASET = frozenset({"__getitem__", "__getitems__", "__getattr__", "__getattribute__"})


def read_code(dataset: Any) -> list[Outside]:
    """Raises ``Doubt``; else gives the variables outside of the dataset that its code reads."""
    return Reader(dataset).read()


class Reader:
    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._names: set[str] = set()
        """Of attributes, that occur in what was read."""
        self._classes: dict[type, bool] = {}
        """Whose methods may be called, and whether they are made by an item's code."""
        self._waiting: list[tuple[types.FunctionType, bool]] = []
        self._read: set[types.CodeType] = set()
        self._looked_at: set[int] = set()
        self._outside: list[Outside] = []
        self._doubts = Doubts()

    def read(self) -> list[Outside]:
        for value in everything_in(self._dataset):
            self._look_at(value, _place_of(type(self._dataset)))
        before = (-1, -1)
        while (len(self._names), len(self._classes)) != before:
            before = len(self._names), len(self._classes)
            for kind in list(self._classes):
                self._look_at_methods(kind)
            while self._waiting:
                with self._doubts.gathered():
                    self._read_function(*self._waiting.pop())
        self._doubts.raise_the_worst()
        return self._outside

    def _look_at(self, value: Any, where: str) -> None:
        """Anything that the code can get hold of."""
        with self._doubts.gathered():
            self._look_closely_at(value, where)

    def _look_closely_at(self, value: Any, where: str) -> None:
        if type(value) in PLAIN or id(value) in self._looked_at or is_handle(value):
            self._doubt_handle(value, where)
            return
        self._looked_at.add(id(value))
        if isinstance(value, types.ModuleType):
            self._doubt_module(value.__name__, where)
        elif isinstance(value, type):
            self._look_at_class(value, where, made=True)
        elif isinstance(value, types.FunctionType):
            self._look_at_function(value, where, is_method=False)
        elif isinstance(value, functools._lru_cache_wrapper):
            self._look_at(value.__wrapped__, where)
        elif isinstance(value, ROUTINES):
            self._look_at_callable(value, where)
        else:
            self._look_at_instance(value, where)

    def _doubt_handle(self, value: Any, where: str) -> None:
        if type(value).__module__.startswith("h5py") and bool(value):
            raise Doubt(f"{where}: holds an open HDF5 file, which no other process may share")

    def _look_at_callable(self, value: Any, where: str) -> None:
        owner = getattr(value, "__self__", None)
        if owner is not None and not isinstance(owner, types.ModuleType | type):
            for each in everything_in(owner):
                self._look_at(each, where)
        if isinstance(value, types.MethodType):
            self._look_at(value.__func__, where)
        else:
            kind = getattr(value, "__objclass__", type(owner or value))
            home = getattr(value, "__module__", None) or kind.__module__
            self._trust(home, value.__name__, where)

    def _look_at_instance(self, value: Any, where: str) -> None:
        kind = type(value)
        drawing = torch.Generator | random.Random | np.random.Generator | np.random.RandomState
        if isinstance(value, drawing):
            raise MayDraw(f"{where}: holds a random generator, a {kind.__name__}")
        if isinstance(value, collections.abc.Iterator):
            raise Doubt(f"{where}: holds an iterator, a {kind.__name__}, which moves on")
        if isinstance(value, torch.Tensor) and value.device.type != "cpu":
            raise Doubt(f"{where}: holds a tensor on {value.device}")
        if isinstance(value, nn.Module):
            self._doubt_training(value, where)
        if "Random" in kind.__name__ and value is not self._dataset:
            raise MayDraw(f"{where}: holds a {kind.__name__}, which by its name is random")
        self._look_at_class(kind, where, made=False)

    def _doubt_training(self, module: nn.Module, where: str) -> None:
        rates = (getattr(module, name, 0) for name in ("p", "dropout"))
        draws = any(isinstance(rate, float) and rate > 0 for rate in rates)
        normalizes = isinstance(module, nn.modules.batchnorm._NormBase | nn.RReLU)
        if not module.training or known.is_read(type(module).__module__):
            return
        if draws:
            raise MayDraw(f"{where}: holds a {type(module).__name__} in training mode")
        if normalizes:
            raise Doubt(f"{where}: holds a {type(module).__name__} in training mode")

    def _look_at_class(self, kind: type, where: str, *, made: bool) -> None:
        if made:
            known.doubt_call(kind.__name__, where)
            if issubclass(kind, nn.Module) and not known.is_read(kind.__module__):
                raise MayDraw(f"{where}: making a {kind.__name__} may draw its weights")
        for each in kind.__mro__:
            if known.is_read(each.__module__):
                self._classes[each] = made or self._classes.get(each, False)
            elif made or known.is_doubtful(each.__module__):
                self._trust(each.__module__, each.__name__, where)

    def _look_at_methods(self, kind: type) -> None:
        for name, member in list(vars(kind).items()):
            if self._may_be_called(kind, name):
                # What is just being made does not live on, such as an error that is raised.
                of_old = not (name in MADE and self._classes[kind])
                for function in _functions_of(member):
                    self._look_at_function(function, _place_of(kind), is_method=of_old)
                if not isinstance(member, (types.FunctionType, *DESCRIPTORS)):
                    for each in _with_parts(member):
                        self._look_at(each, _place_of(kind))

    def _may_be_called(self, kind: type, name: str) -> bool:
        if name in MADE and not self._classes[kind]:
            return False  # it was made before, whatever else is made by that name
        if name in self._names or name == "forward":
            return True
        if not (name.startswith("__") and name.endswith("__")):
            return False
        if kind in type(self._dataset).__mro__ and not self._classes[kind]:
            return name in ASKED_OF_A_DATASET
        return name not in UNCALLED or (name in MADE and self._classes[kind])

    def _look_at_function(
        self, function: types.FunctionType, where: str, *, is_method: bool
    ) -> None:
        if not known.is_read(function.__module__ or ""):
            self._trust(function.__module__, function.__name__, where)
        elif function.__code__ not in self._read:
            self._read.add(function.__code__)
            if len(self._read) > MOST_FUNCTIONS:
                raise Doubt(f"{where}: more than {MOST_FUNCTIONS} functions would have to be read")
            self._waiting.append((function, is_method))

    def _trust(self, module: str, name: str, where: str) -> None:
        known.doubt_call(name, where)
        if module in ("posix", "os", "nt") and name in known.SYSTEM_CALLS:
            return
        self._doubt_module(module, where)
        if known.is_doubtful(module):
            raise Doubt(f"{where}: {module}.{name} is not known to give the same each time")
        if known.is_read(module):
            raise Doubt(f"{where}: the source of {module}.{name} cannot be read")

    def _doubt_module(self, module: str, where: str) -> None:
        if any(f"{module}.".startswith(f"{each}.") for each in known.DRAWING_MODULES):
            raise MayDraw(f"{where}: {module} draws random numbers")

    def _read_function(self, function: types.FunctionType, is_method: bool) -> None:
        if function.__code__.co_filename == "<string>" and function.__name__ in MADE:
            return  # written by dataclasses or collections
        found = read_body(function, is_method=is_method)
        self._doubts.take(found.doubts)
        self._names |= found.attributes
        self._outside += found.outside
        for value, where in found.objects:
            for each in _with_parts(value):
                self._look_at(each, where)


def _with_parts(value: Any) -> Iterator[Any]:
    """Of an object that lives outside of the dataset, what it holds as well."""
    if isinstance(value, types.ModuleType | type | types.FunctionType):
        yield value
    else:
        yield from everything_in(value)


def _functions_of(member: Any) -> list[types.FunctionType]:
    """The code behind an attribute of a class."""
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    if isinstance(member, functools.cached_property):
        member = member.func
    found = [member.fget, member.fset] if isinstance(member, property) else [member]
    unwrapped = [getattr(each, "__wrapped__", each) for each in found]
    return [each for each in [*found, *unwrapped] if isinstance(each, types.FunctionType)]


def _place_of(kind: type) -> str:
    """Of the class of a dataset, or of something that it holds."""
    return f"{kind.__module__}.{kind.__qualname__}"
