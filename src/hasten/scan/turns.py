"""Loops whose turns could be done at once: what they count, and whether one needs another."""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from hasten.scan.heat import bare
from hasten.scan.look import Look, argument, called_name, is_constant, receiver
from hasten.scan.models import is_model_call
from hasten.scan.nodes import walk
from hasten.scan.outline import Function, Loop, Site
from hasten.scan.recurrence import handed_on
from hasten.scan.trace import counter_of, last_given, last_name, names

MOMENTS = re.compile(r"^(t|ti|step|time|timestep|pos|position|tok|token)s?$|_t$|^t_|time|step")
"""Names that count moments: those depend on one another."""
FEW_THINGS = re.compile(r"task|head|layer|block|level|scale|stage|expert|codebook|quantizer")
NO_SAMPLES = re.compile(
    r"epoch|iter|batches|chunk|fold|group|worker|rank|gpu|hop|order|beam|dims?$|world|cell|deriv"
    r"|trial|depth|attempt|thread|retr|loss|objective"
)
"""Names that count what there is a handful of, or what is meant to be done bit by bit."""
BATCH = re.compile(
    r"^(batch_?size|batch_?sz|b_?size|bs|bsz|bz|b|n_?batch|batch|batch_dim|batch_len|n|nb)$", re.I
)
MANY = re.compile(r"^_?(n|nb|num|number_of|nr|total)_[a-z_]*s$|^_?(n|nb|num)_[a-z]+$")
"""How counts are called: ``n_entities``, ``num_func``."""
ALL = re.compile(
    r"^_?(n|nb|num|nr|number_of|total)_(ent|node|item|user|sampl|exampl|point|atom|token|word|mol"
    r"|graph|image|frame|row|sent|doc|quer|candidate|edge|vert|vox|pixel|test|train)"
)


def over_moments(loop: Loop) -> bool:
    """Also over what there is a handful of, over chunks and over offsets."""
    target, over = loop.header()
    match over:
        case ast.Call(func=ast.Name(id="range"), args=[_, _, _] | [ast.UnaryOp(), _]):
            return True
    said = [*(_all_names(target) if target is not None else ()), *_all_names(over)]
    return any(MOMENTS.search(name) or FEW_THINGS.search(name) for name in said)


def hands_on_tensor(loop: Loop, look: Look) -> bool:
    """Whether one turn needs what the last one computed."""
    if not isinstance(loop.node, ast.For):
        return False
    line = loop.node.end_lineno or loop.line
    return any(
        look.values.of_name(name, line, loop.function).is_tensor or _is_passed_on(name, loop)
        for name in handed_on(loop.node)
        if not _is_only_added_to(name, loop.node) and not _stays_in_place(name, loop.node)
    )


def _is_only_added_to(name: str, loop: ast.For) -> bool:
    """``total = total + part``, where nothing else of the body reads the total."""
    reads = sum(
        isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load)
        for statement in loop.body
        for each in walk(statement)
    )
    adds = sum(_adds_to(name, each) for statement in loop.body for each in walk(statement))
    return 0 < reads == adds


def _stays_in_place(name: str, loop: ast.For) -> bool:
    """``x[i] = f(x[i])``, where all of the body is about what the loop counts."""
    counter = counter_of(loop)
    parts = [each for statement in loop.body for each in walk(statement)]
    at_counter = sum(
        isinstance(each, ast.Subscript)
        and last_name(each.value) == name
        and last_name(first_index(each)) == counter
        for each in parts
    )
    return 0 < at_counter == sum(isinstance(each, ast.Name) and each.id == name for each in parts)


def first_index(node: ast.Subscript) -> ast.expr:
    """``i`` of ``x[i]`` and of ``x[i, :n]``."""
    index = node.slice
    return index.elts[0] if isinstance(index, ast.Tuple) and index.elts else index


def _adds_to(name: str, node: ast.AST) -> bool:
    match node:
        case ast.Assign(
            targets=[ast.Name(id=target)], value=ast.BinOp(op=ast.Add(), left=left, right=right)
        ) if target == name:
            return name in (last_name(left), last_name(right))
    return False


def _is_passed_on(name: str, loop: Loop) -> bool:
    """``x = layer(x)``."""
    return any(
        isinstance(each.value, ast.Call) and name in names(each.value)
        for each in loop.function.bindings.get(name, ())
        if loop.holds(each.line) and each.how == "value"
    )


def goes_over_all(loop: Loop) -> bool:
    """Whether it counts what there are very many of: even a loop that runs once takes long."""
    return any(ALL.search(name) for name in _all_names(bare(loop.header()[1])))


def counts_samples(over: ast.expr, function: Function, look: Look) -> bool:
    """``range(x.size(0))`` and its like: as many turns as there are samples or entities."""
    over = bare(over)
    if not isinstance(over, ast.Call) or called_name(over) not in ("range", "trange"):
        return False
    bounds = over.args
    if len(bounds) == 2 and is_constant(bounds[0], 0):
        bounds = bounds[1:]
    return len(bounds) == 1 and _is_count(bounds[0], function, look)


def goes_over_rows(over: ast.expr, site: Site, look: Look) -> bool:
    """Whether it is a tensor for sure, or several side by side, whose rows the loop takes: what a
    model gives, or what is only named so, may as well be a list of them."""
    if isinstance(over, ast.Call) and called_name(over) in SHOWN and over.args:
        over = over.args[0]
    is_zip = isinstance(over, ast.Call) and called_name(over) == "zip"
    together = over.args if is_zip else [over]  # type: ignore[attr-defined]
    if not all(map(_may_have_rows, _all_names(over))):
        return False
    if any(look.value(each, site).kind in ("module", "dataset", "loader") for each in together):
        return False
    return any(_has_rows(each, site, look) for each in together)


SHOWN = ("enumerate", "tqdm", "track", "reversed")


def _has_rows(over: ast.expr, site: Site, look: Look) -> bool:
    if isinstance(over, ast.Call):
        return _unbinds_rows(over, site, look)
    if not isinstance(over, ast.Name | ast.Attribute | ast.Subscript):
        return False
    function = site.function
    if not look.value(over, site).is_tensor or _is_asked_for_list(over, function, look):
        return False
    if isinstance(over, ast.Name):
        binding, _ = look.values.definition(over.id, over.lineno, function)
        if binding is None:
            return _is_tensor_parameter(over.id, function, look)
        if binding.how == "item" and look.values.of(binding.value, function).kind == "batch":
            return True
    made = last_given(over, function) or look.values.given(over, function)
    if isinstance(made, ast.Call):
        return is_kernel(made, function, look) or _has_shape(over, function, look)
    return _has_shape(over, function, look)


def _unbinds_rows(call: ast.Call, site: Site, look: Look) -> bool:
    """``x.unbind(0)``, ``torch.unbind(x)``."""
    if called_name(call) != "unbind":
        return False
    place = 1 if look.is_of_torch(call) else 0
    dimension = argument(call, place, "dim")
    return dimension is None or is_constant(dimension, 0)


def _is_tensor_parameter(name: str, function: Function, look: Look) -> bool:
    """By its annotation or by its use."""
    parameter = function.parameters.get(name)
    if parameter is not None and parameter.annotation is not None:
        return True
    if name in look.values.parameters.tensor_parameters(function):
        return True
    return _has_shape(ast.Name(id=name), function, look)


def _has_shape(node: ast.expr, function: Function, look: Look) -> bool:
    """Whether the function asks for the shape, the type or the device of it, which a list has
    not."""
    name = last_name(node)
    said = rf"\b{name}\.(shape|dtype|device|ndim|size\(|dim\()"
    return bool(name) and re.search(said, look.text_of(function)) is not None


def is_kernel(call: ast.Call, function: Function, look: Look) -> bool:
    """A function of torch that gives a tensor, or a method of one."""
    if look.is_of_torch(call):
        return look.values.of(call, function).is_tensor
    return look.values.of(receiver(call), function).is_tensor


def _is_count(node: ast.expr, function: Function, look: Look) -> bool:
    """``batch_size``, ``x.size(0)``, ``x.shape[0]`` and ``len(x)`` of a tensor."""
    match node:
        case ast.Call(func=ast.Attribute(attr="size"), args=[ast.Constant(value=0)]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant(value=0)):
            return True
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name() | ast.Attribute() as counted]):
            kind = look.values.of(counted, function).kind
            is_open = kind == "unknown" and _may_be_many(last_name(counted).lower())
            if kind == "tensor":
                return not _may_be_list(counted, function, look)
            return is_open and isinstance(counted, ast.Name)
        case ast.Name():
            return _is_named_count(node) or _is_first_of_shape(node, function, look)
        case ast.Attribute():
            return _is_named_count(node)
    return False


def _may_be_list(node: ast.expr, function: Function, look: Look) -> bool:
    """Of what a model gives: it may be one of several lists of tensors."""
    if _is_asked_for_list(node, function, look):
        return True
    made = last_given(node, function)
    if not isinstance(made, ast.Call) or not is_model_call(made, function, look):
        return False
    return not _has_shape(node, function, look)


def _is_asked_for_list(node: ast.expr, function: Function, look: Look) -> bool:
    """``isinstance(x, (list, tuple))``: what takes both goes over the one and not the other."""
    name = last_name(node)
    said = rf"isinstance\(\s*{name},[^)]*(list|tuple|sequence|iterable)"
    return bool(name) and re.search(said, look.text_of(function), re.IGNORECASE) is not None


def _is_named_count(node: ast.expr) -> bool:
    name = last_name(node).lower()
    if BATCH.search(name):
        return True
    return bool(MANY.search(name)) and _may_be_many(name)


@lru_cache(maxsize=10_000)
def _may_be_many(name: str) -> bool:
    return not (FEW_THINGS.search(name) or NO_SAMPLES.search(name) or MOMENTS.search(name))


@lru_cache(maxsize=10_000)
def _may_have_rows(name: str) -> bool:
    return _may_be_many(name) and "list" not in name


def _is_first_of_shape(node: ast.Name, function: Function, look: Look) -> bool:
    """``rows, _ = x.shape`` and ``rows = x.size(0)``."""
    binding, scope = look.values.definition(node.id, node.lineno, function)
    if binding is None or scope is not function or binding.path not in ((), (0,)):
        return False
    match binding.value:
        case ast.Name():
            return False
        case ast.expr() as given if binding.how == "value":
            return _is_count(given, function, look)
        case ast.Attribute(attr="shape") | ast.Call(func=ast.Attribute(attr="size"), args=[]):
            return binding.how == "item"
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Slice(lower=None)):
            return binding.how == "item"
    return False


def _all_names(node: ast.expr) -> Iterator[str]:
    for each in walk(node):
        name = last_name(each)
        if name:
            yield name.lower()
