"""What names, annotations and parameters say of a value that nothing else is known of."""

import ast
import re
from functools import lru_cache
from typing import Protocol

from hasten.scan import vocabulary
from hasten.scan.nodes import walk
from hasten.scan.outline import Class, Function, Outline, Site
from hasten.scan.uses import tensor_parameters
from hasten.scan.value import ARRAY, LOADER, NONE, NUMBER, TENSOR, UNKNOWN, Kind, Value


class Known(Protocol):
    """What is known of a file besides."""

    def of(self, node: ast.AST | None, function: Function) -> Value: ...

    def is_module(self, owner: Class) -> bool: ...


class Parameters:
    """Of the functions of one file."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self._used: dict[int, frozenset[str]] = {}
        self._known: dict[tuple[int, str], Value] = {}
        self._sites: dict[str, list[Site]] | None = None

    def of(self, name: str, function: Function, values: Known) -> Value:
        key = id(function), name
        known = self._known.get(key)
        if known is None:
            self._known[key] = UNKNOWN  # where functions call each other in a circle
            known = self._known[key] = self._find(name, function, values)
        return known

    def _find(self, name: str, function: Function, values: Known) -> Value:
        argument = function.parameters[name]
        if argument.annotation is not None:
            found = of_annotation(argument.annotation, self._outline)
            if found.kind != "unknown":
                return found
            if not _mentions_tensor(argument.annotation):
                return TENSOR if name in self.tensor_parameters(function) else by_name(name)
        named = by_name(name)
        if (
            argument.annotation is None
            and named.kind != "tensor"
            and _is_number_unless_given(name, function)
            and name not in self.tensor_parameters(function)
        ):
            return NUMBER
        if named.kind not in ("unknown", "tensor"):
            return named
        given = self._of_arguments(name, function, values)
        if given.kind != "unknown":
            return given
        used = self.tensor_parameters(function)
        is_named_so = vocabulary.is_tensor_parameter(name)
        if name in used or (is_named_so and (used or _takes_tensors(function, values))):
            return TENSOR
        if name in vocabulary.BATCHES and _takes_tensors(function, values):
            return Value("batch")
        return named

    def tensor_parameters(self, function: Function) -> frozenset[str]:
        """Those that the function uses as tensors."""
        found = self._used.get(id(function))
        if found is None:
            found = self._used[id(function)] = tensor_parameters(function, self._outline)
        return found

    def takes_tensor(self, function: Function) -> bool:
        """Whether any of its parameters is one, by its type, its use or both their names."""
        for each in function.parameters.values():
            said = each.annotation
            if said is not None and of_annotation(said, self._outline) == TENSOR:
                return True
        return bool(function.parameters) and bool(self.tensor_parameters(function))

    def _of_arguments(self, name: str, function: Function, values: Known) -> Value:
        """Of what the calls in this file give the parameter, where they agree."""
        found = {
            values.of(_given_to(name, function, site.node), site.function)
            for site in self._calls_of(function)
        } - {NONE}
        if len(found) == 1:
            return found.pop()
        return TENSOR if found and all(each.kind == "tensor" for each in found) else UNKNOWN

    def _calls_of(self, function: Function) -> list[Site]:
        if self._sites is None:
            self._sites = {}
            own = {each.last_name for each in self._outline.functions}
            for each in self._outline.functions:
                for site in each.calls:
                    if site.called not in own:
                        continue
                    called = site.node.func
                    if isinstance(called, ast.Name):
                        self._sites.setdefault(called.id, []).append(site)
                    elif isinstance(called, ast.Attribute) and _is_self(called.value):
                        self._sites.setdefault(f"self.{called.attr}", []).append(site)
        is_method = function.owner is not None and function.name.count(".") == 1
        return self._sites.get(("self." if is_method else "") + function.last_name, [])


def of_annotation(node: ast.expr, outline: Outline) -> Value:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _of_type(node.value, node.value.rpartition(".")[2])
    if isinstance(node, ast.BinOp):  # "Tensor | None"
        return _of_either([node.left, node.right], outline)
    if isinstance(node, ast.Subscript):
        return _of_generic(node, outline)
    dotted = outline.dotted(node)
    return _of_type(dotted, dotted.rpartition(".")[2])


def _of_either(sides: list[ast.expr], outline: Outline) -> Value:
    """Of ``Tensor | None`` and ``Union[Tensor, None]``; the first where it is a tensor,
    else unknown where it may be several things."""
    found = [of_annotation(each, outline) for each in sides if not _says_none(each)]
    if found and (found[0].is_tensor or len(set(found)) == 1):
        return found[0]
    return UNKNOWN


def _says_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _of_generic(node: ast.Subscript, outline: Outline) -> Value:
    outer = outline.dotted(node.value).rpartition(".")[2]
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if outer in ("Optional", "Union"):
        return _of_either(inner, outline)
    if outer in LISTS:
        return _holding("list", inner[:1], outline)
    if outer in DICTS:
        return _holding("dict", inner[1:], outline)
    if outer == "DataLoader":
        return LOADER
    if outer in SHAPED:
        return of_annotation(inner[0], outline) if inner else UNKNOWN
    return UNKNOWN


SHAPED = vocabulary.words("Annotated Float Int Bool Num Shaped Integer Inexact Complex UInt8 Int64")
"""Around a type, with what its shape is: ``Float[Tensor, "rows columns"]``."""


def _holding(kind: Kind, inner: list[ast.expr], outline: Outline) -> Value:
    held = of_annotation(inner[0], outline) if inner else UNKNOWN
    return Value(kind, held.where, held.kind)


@lru_cache(maxsize=10_000)
def _of_type(dotted: str, last: str) -> Value:
    if last in TENSORS:
        return TENSOR
    if last in vocabulary.LOADERS:
        return LOADER
    if last == "Module" or dotted.startswith("torch.nn."):
        return Value("module")
    if last == "Optimizer" or last in vocabulary.OPTIMIZERS:
        return Value("optimizer")
    if last == "ndarray":
        return ARRAY
    if last in ("DataFrame", "Series"):
        return Value("frame")
    if last in ("int", "float", "bool"):
        return NUMBER
    if last == "str":
        return Value("text")
    if last in LISTS:
        return Value("list")
    return Value("dict") if last in DICTS else UNKNOWN


LISTS = vocabulary.words("List list Sequence Tuple tuple Iterable")
DICTS = vocabulary.words("Dict dict Mapping OrderedDict DefaultDict MutableMapping")
TENSORS = vocabulary.words(
    "Tensor FloatTensor LongTensor BoolTensor IntTensor DoubleTensor OptTensor TensorType"
)


GIVES_NO_TENSOR = re.compile(
    r"numpy|array|(^|_|2)np($|_)|(^|_)(cpu|host|item|float|int|str|text|len|length|size|shape|dim"
    r"|dims|count|num|name|names|keys|type|dtype|device|list|dict|json|scalar|print|log|check|get"
    r"|is|has|should|can|write|save|plot|load|read|parse|format|decode|tokenize)($|_)"
)
"""What functions are called that give something else than the tensors that they take."""


@lru_cache(maxsize=10_000)
def may_give_tensor(called: str) -> bool:
    """Whether a function that takes tensors may give some back, by its dotted name."""
    last = called.rpartition(".")[2]
    return last.islower() and not GIVES_NO_TENSOR.search(last)


COPY = re.compile(
    r"^(target|old|ema|momentum|local|online)_|_(target|old|ema|momentum|local|online)$"
)
"""How copies of networks are called: ``critic_target``, ``ema_model``."""

DOES = re.compile(
    r"^_*(is|has|get|set|make|build|create|load|save|init|use|wrap|unwrap|prepare|freeze|find|num|n"
    r"|check|setup|update|reset|print|export|convert|register|compile|train|test|eval|fit)_"
)
"""How names begin of what does something with a model, or says something of one."""


@lru_cache(maxsize=10_000)
def by_name(name: str) -> Value:
    """Of what is nowhere given a value: people call things what they are."""
    low = name.lower()
    if not low.startswith(("num", "n_")):
        if any(word in low for word in vocabulary.LOADER_WORDS):
            return LOADER
        if any(word in low for word in vocabulary.BATCHES_WORDS):
            return Value("loader")
    if low.endswith(("optimizer", "optim", "opt")) and low not in ("opt",):
        return Value("optimizer")
    if low.endswith("scaler") and "standard" not in low and "minmax" not in low:
        return Value("scaler") if low in ("scaler", "grad_scaler", "amp_scaler") else UNKNOWN
    if DOES.search(low):
        return UNKNOWN
    if low in (
        "model",
        "net",
        "network",
        "criterion",
        "generator",
        "discriminator",
        "encoder",
        "decoder",
        "backbone",
        "policy",
        "actor",
        "critic",
        "teacher",
        "student",
        "netg",
        "netd",
    ):
        return Value("module")
    if low.endswith(("_model", "_net", "_network", "_encoder", "_decoder")):
        return Value("module")
    stem = COPY.sub("", low)
    if stem != low and by_name(stem).kind == "module":
        return Value("module")
    if low in ("loss", "logits", "total_loss"):
        return TENSOR
    if low in ("df", "dataframe"):
        return Value("frame")
    if low.endswith("writer"):
        return Value("writer")
    return UNKNOWN


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _given_to(name: str, function: Function, call: ast.Call) -> ast.expr | None:
    """What a call gives a parameter."""
    for word in call.keywords:
        if word.arg == name:
            return word.value
    names = [each for each in function.parameters if each not in ("self", "cls")]
    place = names.index(name) if name in names else len(call.args)
    given = call.args[: place + 1]
    if len(given) <= place or any(isinstance(each, ast.Starred) for each in given):
        return None
    return given[place]


def _is_number_unless_given(name: str, function: Function) -> bool:
    """Whether the parameter is a number where a call leaves it out, as ``smoothing=0.1``."""
    arguments = function.node.args if not isinstance(function.node, ast.Module) else None
    if arguments is None or not (arguments.defaults or arguments.kw_defaults):
        return False
    plain = [*arguments.posonlyargs, *arguments.args]
    last = plain[len(plain) - len(arguments.defaults) :]
    values = [*arguments.defaults, *arguments.kw_defaults]
    return any(
        each.arg == name and isinstance(value, ast.Constant) and type(value.value) in (int, float)
        for each, value in zip([*last, *arguments.kwonlyargs], values, strict=True)
    )


def _mentions_tensor(annotation: ast.expr) -> bool:
    return any(
        (isinstance(each, ast.Name) and each.id.endswith("Tensor"))
        or (isinstance(each, ast.Attribute) and each.attr.endswith("Tensor"))
        for each in walk(annotation)
    )


def _takes_tensors(function: Function, values: Known) -> bool:
    name = function.last_name
    if name in ("training_step", "validation_step", "test_step"):
        return False
    if name == "forward":
        return True
    return function.owner is not None and values.is_module(function.owner) and name != "__init__"
