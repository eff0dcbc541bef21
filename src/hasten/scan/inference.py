"""Functions that only ask a model for results, and whether they record gradients all the same."""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from hasten.scan.look import (
    Look,
    argument,
    called_name,
    is_constant,
    is_own_attribute,
    names_in,
    receiver,
)
from hasten.scan.models import LOSSES, is_model_call
from hasten.scan.nodes import walk
from hasten.scan.outline import Function, Loop, Site
from hasten.scan.trace import FOLLOWED, calls_in, last_name, root_name, site_of
from hasten.scan.training import EVALUATION
from hasten.scan.vocabulary import words

INFERS = re.compile(
    r"predict|sampl|encod|evaluat|explain|infer|generat|embed|(^|_)test|valid|score|impute"
    r"|extract|reconstruct|classif|detect|segment|translate|forecast|transform|decision|(^|_)eval"
    r"|nll|likelihood|perplexity|interpolat|recommend|(^|_)(act|actions?)$"
)
HOOKS = re.compile(r"^(forward|__init__|(training|train|validation|test|predict|val)_step)$")
"""Others run these, and record gradients or do not."""
NEED_GRADIENTS = words("backward grad step requires_grad_ set_grad_enabled enable_grad")
TAKE_GRADIENTS = words("backward grad enable_grad")
NUMBERS = words("item tolist numpy cpu argmax")
"""What a step of evaluation makes of a model's outputs."""
TRAINS = re.compile(r"train|fit(_|$)|learn|epoch|tun(e|ing)|update|optimi[sz]e|calibrat")
DROPS = ("detach", "cpu", "numpy", "eval", "item", "tolist")
"""What leaves no graph behind, or says that none is wanted."""
ASKS = re.compile(
    r"^_?(\w+_)?(infer|inference|predict|encode|embed|generate|forward|score|scores|scoring|logits"
    r"|decode|reconstruct|classify|represent|featuri[sz]e|likelihood)(_\w+)?$"
)
"""Methods that run a model."""
GUARDED = re.compile(r"^_?(encode|generate|predict|transcribe|translate|embed)")
"""Of these, the ones that mostly see to it themselves that no gradients are recorded."""
ENCODES = re.compile(r"^_?(encode|generate|transcribe|translate)")
"""And those that nearly always do."""


def only_infers(function: Function) -> bool:
    """By its name, and since nothing in it needs a gradient."""
    name = function.last_name
    if HOOKS.match(name) or _is_check(function):
        return False
    if not _says_infers(name) and not _evaluates(function):
        return False
    if not NEED_GRADIENTS.isdisjoint(function.called):
        return False
    return not any(_takes_gradients(each) for each in own_methods(function))


@lru_cache(maxsize=10_000)
def _says_infers(name: str) -> bool:
    return INFERS.search(name.lower()) is not None


def _evaluates(function: Function) -> bool:
    """Whether it sets a model to evaluate, and goes over something."""
    if not function.loops or SET_TO_EVALUATE.isdisjoint(function.called):
        return False
    return any(is_set_to_evaluate(each.node) for each in function.calls)


SET_TO_EVALUATE = words("eval train")


def is_set_to_evaluate(call: ast.Call) -> bool:
    """``model.eval()`` and ``model.train(False)``."""
    name = called_name(call)
    if name == "eval":
        return receiver(call) is not None and not call.args
    return name == "train" and is_constant(argument(call, 0, "mode"), value=False)


CHECKS = re.compile(r"^_*(test|ensure|assert|verify)_")
"""How tests of the code are called, and evaluations on test data."""


def _is_check(function: Function) -> bool:
    """Whether it is a test of the code, and no evaluation on test data."""
    if not CHECKS.match(function.last_name):
        return False
    if not function.loops or any(each.startswith("assert") for each in function.called):
        return True
    return any(isinstance(each, ast.Assert) for each in walk(function.node))


def _takes_gradients(function: Function) -> bool:
    return not TAKE_GRADIENTS.isdisjoint(function.called)


def own_methods(function: Function) -> list[Function]:
    """Methods of its object that it calls, and that these call."""
    methods = function.owner.methods if function.owner is not None else {}
    found = [function]
    for caller in found:  # which grows on the way
        for each in caller.calls:
            own = methods.get(each.called)
            if own is not None and own not in found and is_own_attribute(each.node.func):
                found.append(own)
    return found[1:]


def asks_model(call: ast.Call, function: Function, look: Look) -> bool:
    """Whether a module is called, or one of the methods that run it; one that drops the graph
    itself is looked at by itself, and one that nearly always does so is none."""
    if is_model_call(call, function, look):
        return True
    held, name = receiver(call), called_name(call)
    if held is None or not ASKS.match(name):
        return False
    if last_name(held) != "self":
        return not ENCODES.match(name) and look.values.of(held, function).kind == "module"
    own = function.owner.methods.get(name) if function.owner is not None else None
    return own is None or own.called.isdisjoint(DROPS)


def asked_in(loop: Loop, look: Look) -> Iterator[ast.Call]:
    """Calls of models in a loop, of which only the results are wanted."""
    function = loop.function
    for each in calls_in(loop):
        if loop.changes(each.node.func):  # goes over models
            continue
        if is_model_call(each.node, function, look) or asks_openly(each.node, function, look):
            yield each.node


def evaluates(loop: Loop, look: Look) -> bool:
    """Whether a loop over batches makes numbers of what models give, in a function that may train
    as well: its data is there to evaluate on, or nothing in the function trains."""
    function = loop.function
    name = function.last_name
    if HOOKS.match(name) or LOSSES.search(name) or _is_check(function):
        return False
    called = {each.called for each in calls_in(loop)}
    if called.isdisjoint(NUMBERS) or not called.isdisjoint(NEED_GRADIENTS):
        return False
    if any(EVALUATION.search(each.lower()) for each in _header_names(loop)):
        return not any(_goes_back_after(each, loop) for each in function.calls)
    if TRAINS.search(name.lower()) or "optim" in look.text_of(function):
        return False
    return NEED_GRADIENTS.isdisjoint(function.called)


def _header_names(loop: Loop) -> Iterator[str]:
    for each in loop.header():
        if each is not None:
            yield from names_in(each)


def _goes_back_after(site: Site, loop: Loop) -> bool:
    """Whether gradients are taken of what the loop leaves behind."""
    return (
        site.called in TAKE_GRADIENTS and site.loop is loop.outer and site.node.lineno > loop.line
    )


def asks_openly(call: ast.Call, function: Function, look: Look) -> bool:
    """Whether it runs another object's model, and leaves it to the caller to record gradients."""
    if GUARDED.match(called_name(call)) or last_name(receiver(call)) in ("", "self"):
        return False
    return asks_model(call, function, look)


def records(model: ast.Call, function: Function, look: Look) -> bool:
    """Whether gradients are recorded there that nobody wants, as far as the file tells."""
    if is_without_grad(model, function, look):
        return False
    return not any(
        _trains(each.function) or _goes_back_through(each) for each in _callers(function, look)
    )


def is_without_grad(model: ast.Call, function: Function, look: Look) -> bool:
    """Whether no gradients are recorded there, or only where something else has failed."""
    place = site_of(model, function)
    if place is None or look.without_grad(place) or is_fallback(place) or _is_warm_up(place):
        return True
    return any(look.without_grad(each) for each in _callers(function, look))


def _trains(function: Function) -> bool:
    """Whether what it calls is part of a forward pass or of a loss."""
    name = function.last_name
    return name.startswith("forward") or bool(LOSSES.search(name))


def _goes_back_through(call: Site) -> bool:
    """Whether who calls it takes gradients of what it gives, as an attack on a model does."""
    function = call.function
    takes = [each.node for each in function.calls if called_name(each.node) in TAKE_GRADIENTS]
    if not takes:
        return False
    made = _made_of(call.node, function)
    return any(
        each is call.node or (isinstance(each, ast.Name) and each.id in made)
        for one in takes
        for each in walk(one)
    )


def _made_of(call: ast.Call, function: Function) -> set[str]:
    """The names that a function gives what a call gives, or what is made of that."""
    found: set[str] = set()
    given = [
        (name, list(walk(each.value)))
        for name, bindings in function.bindings.items()
        for each in bindings
        if each.value is not None
    ]
    for _ in range(FOLLOWED):
        more = {
            name
            for name, parts in given
            if any(
                each is call or (isinstance(each, ast.Name) and each.id in found) for each in parts
            )
        }
        if more <= found:
            break
        found |= more
    return found


def is_fallback(site: Site) -> bool:
    """Whether it runs only where something else has failed."""
    return site.block is not None and any(
        isinstance(each.node, ast.ExceptHandler) for each in site.block.outwards()
    )


def _is_warm_up(place: Site) -> bool:
    """Whether a model is run once for nothing, beside a loop."""
    statement = place.statement
    return (
        place.loop is None
        and isinstance(statement, ast.Expr)
        and statement.value is place.node
        and bool(place.function.loops)
    )


def _callers(function: Function, look: Look) -> Iterator[Site]:
    """Calls of the function in its own file."""
    name = function.last_name
    for other in look.outline.functions:
        for each in other.calls:
            if each.called == name and root_name(each.node) is not None:
                yield each
