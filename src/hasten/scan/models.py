"""Calls of models, and which of them is behind a result."""

import ast
import re

from hasten.scan.look import Look, called_name, is_own_attribute, receiver
from hasten.scan.outline import Function, Site
from hasten.scan.trace import FOLLOWED, last_name, operands
from hasten.scan.uses import OF_TWO

LOSSES = re.compile(r"loss|criterion|metric")
TERMS = re.compile(r"_*(bce|mse|mae|nll|ce|kld?|l1|l2|huber|xent|cross_?entropy)(_fn|_func)?$")
"""How losses are called for what they compute."""
MAKES = re.compile(
    r"_*(select|choose|find|get|make|build|create|load|save|init|initiali[sz]e|set|setup|restore"
    r"|instantiate|prepare|wrap|unwrap|copy|convert|compile|export|download|register|update|check"
    r"|is|has|from|to|train|fit|reset|freeze|unfreeze|clone|import|log|plot|print)_"
)
"""How functions are called that have to do with a model, and do not run it."""
LAYERS = re.compile(
    r"(^|_)(emb|embed|embeddings?|layers?|proj|projection|convs?|linear|fc|mlp|head|net|network|gru"
    r"|lstm|rnn|transformer|backbone|encoder|decoder|model|module|extractor|classifier|trunk|embedder)"
    r"\d*$"
)
"""What attributes are called that hold modules, whatever made them."""
CLASSES = re.compile(r"[A-Z]+\w*[a-z]")
"""How classes are called, which make a module and do not run it."""
MODULES = ("self", "torch", "F", "nn", "functional", "np", "numpy")
"""What stands before the name of a function and is no operand of it."""


def is_model_call(call: ast.Call, function: Function, look: Look) -> bool:
    """Whether a module is called that is no loss."""
    called = call.func
    if not isinstance(called, ast.Name | ast.Attribute):
        return False
    if look.dotted(called).startswith(("torch.", "numpy.", "np.")):
        return False
    if look.values.of(called, function).kind == "module":
        name = last_name(called)
        if CLASSES.match(name):
            return False
        name = name.lower()
        if LOSSES.search(name) or TERMS.match(name) or _makes_loss(called, function, look):
            return False
        return not MAKES.match(name)
    if isinstance(called, ast.Attribute) and called.attr.startswith("forward"):
        base = called.value
        return last_name(base) == "self" or look.values.of(base, function).kind == "module"
    if (
        isinstance(called, ast.Attribute)
        and LAYERS.search(called.attr)
        and look.values.of(called.value, function).kind == "module"
    ):
        return True
    return is_own_attribute(called) and _holds_layer(last_name(called), function, look)


def _makes_loss(called: ast.expr, function: Function, look: Look) -> bool:
    """Whether it was made by ``nn.BCELoss()`` or its like."""
    made = look.values.given(called, function)
    return isinstance(made, ast.Call) and called_name(made).endswith("Loss")


def _holds_layer(name: str, function: Function, look: Look) -> bool:
    """Whether an attribute of ``self``, which is no method, is called as layers are, or is asked
    for its parameters, as an optimizer does."""
    owner = function.owner
    if owner is None or name in owner.methods or name not in owner.attributes:
        return False
    return LAYERS.search(name) is not None or f"self.{name}.parameters()" in look.text


def model_behind(
    node: ast.expr | None,
    function: Function,
    look: Look,
    stops: tuple[str, ...] = (),
    steps: int = FOLLOWED,
) -> ast.Call | None:
    """The call of a model that an expression is made of; calls of ``stops`` are not looked
    behind."""
    if not steps:
        return None
    match node:
        case ast.Call() if is_model_call(node, function, look):
            return node
        case ast.Call() if called_name(node) in stops:
            return None
        case ast.Call():
            sources = [each for each in operands(node) if last_name(each) not in MODULES]
            sources = sources[: 2 if called_name(node) in OF_TWO else 1]
        case ast.Subscript() | ast.Attribute():
            sources = [node.value]
        case ast.BinOp():
            sources, steps = [node.left, node.right], steps + 1
        case ast.UnaryOp():
            sources, steps = [node.operand], steps + 1
        case ast.ListComp(elt=each) | ast.DictComp(value=each):
            sources = [each]
        case ast.Name():
            sources = _given_above(node, function)
        case _:
            return None
    found = (model_behind(each, function, look, stops, steps - 1) for each in sources)
    return next((each for each in found if each is not None), None)


def trained_by(site: Site, look: Look) -> ast.Call | None:
    """The call of the model that a ``loss.backward()`` trains, in code that knows of devices."""
    if "cuda" not in look.text and "device" not in look.text:
        return None
    return model_behind(receiver(site.node), site.function, look)


def _given_above(node: ast.Name, function: Function) -> list[ast.expr]:
    """All that the name was given above its line, the last first; of a loop what it goes over."""
    return [
        each.value
        for each in reversed(function.bindings.get(node.id, ()))
        if each.value is not None and (each.line < node.lineno or each.how == "loop")
    ][:3]
