"""What tells that results are wanted with gradients after all, or that there are none to record."""

import ast

from hasten.scan.inference import DROPS, is_fallback, own_methods
from hasten.scan.look import Look, called_name, names_in
from hasten.scan.models import is_model_call
from hasten.scan.moves import moves_to_device
from hasten.scan.nodes import walk
from hasten.scan.outline import Function, Site
from hasten.scan.trace import FOLLOWED


def may_need_them(look: Look) -> set[str]:
    """Names of models that the file asks without gradients and, where that fails, with them."""
    if "RuntimeError" not in look.text:
        return set()
    return set[str]().union(*(_asked_again(each, look) for each in look.outline.functions))


def _asked_again(function: Function, look: Look) -> set[str]:
    again = {
        each.called
        for each in function.calls
        if _follows_an_error(each)
        and not look.without_grad(each)
        and is_model_call(each.node, function, look)
    }
    first = (each for each in function.calls if look.without_grad(each) and not is_fallback(each))
    return again.intersection(each.called for each in first) if again else again


def _follows_an_error(site: Site) -> bool:
    """Which is one that PyTorch raises where there are no gradients."""
    return site.block is not None and any(
        isinstance(each.node, ast.ExceptHandler)
        and each.node.type is not None
        and "RuntimeError" in names_in(each.node.type)
        for each in site.block.outwards()
    )


def takes_them_in_forward(function: Function, look: Look) -> bool:
    """Whether it is a forward pass that calls ``torch.autograd.grad``, and does not see to it that
    gradients are recorded."""
    if function.last_name != "forward" or function.owner is None or "autograd" not in look.text:
        return False
    parts = [function, *own_methods(function)]
    if any("enable_grad" in each.called for each in parts):
        return False
    return any(
        each.called == "grad" and look.dotted(each.node.func) == "torch.autograd.grad"
        for part in parts
        for each in part.calls
    )


def keeps_tensors(function: Function, look: Look) -> bool:
    """Whether it stores a tensor in its object, with the graph that it hangs on: others may go
    back through it."""
    owner = function.owner
    return owner is not None and any(
        at is function and _may_have_graph(binding.value, function, look)
        for bindings in owner.attributes.values()
        for binding, at in bindings
    )


def _may_have_graph(node: ast.expr | None, function: Function, look: Look) -> bool:
    if not look.values.of(node, function).is_tensor:
        return False
    if isinstance(node, ast.Call):
        is_cut = called_name(node) in DROPS or moves_to_device(node) or look.makes_tensor(node)
        return not is_cut
    return True


def is_given_arrays(model: ast.Call, function: Function, look: Look) -> bool:
    """Whether a model is given what ``x.numpy()`` has given, and nothing that torch has made of
    it: then it does not compute with tensors, and records nothing."""
    given = [*model.args, *(word.value for word in model.keywords)]
    names: set[str] = set()
    are_arrays = False
    for _ in range(FOLLOWED):
        parts = [part for each in given for part in walk(each)]
        if any(_gives_tensor(each, look) for each in parts):
            return False
        are_arrays = are_arrays or any(called_name(each) == "numpy" for each in parts)
        new = {each.id for each in parts if isinstance(each, ast.Name)} - names
        names |= new
        given = [
            each.value
            for name in new
            for each in function.bindings.get(name, ())
            if each.value is not None and each.line < model.lineno
        ]
    return are_arrays


def _gives_tensor(node: ast.AST, look: Look) -> bool:
    """Whether it is a function of torch, or sends something to a device."""
    return isinstance(node, ast.Call) and (look.is_of_torch(node) or moves_to_device(node))
