"""Whether a tensor that a loop makes keeps its numbers, so that it can be kept without a copy."""

import ast
import re

from hasten.scan.look import Look, called_name, is_own_attribute, keyword
from hasten.scan.outline import Binding, Loop, Site
from hasten.scan.reads import REDUCTIONS
from hasten.scan.usage import Above, occurrences
from hasten.scan.vocabulary import words

CAPTURES = re.compile(r"\bcuda\.graph\b|CUDAGraph|make_graphed_callables")
"""What computes in the same memory again and again, whatever it computes."""
READS = words("backward item tolist mean sum max min abs clone isnan isinf isfinite size dim numel")
"""Methods of a tensor that change nothing, and give away nothing of its memory."""
TAKES = words("float print isnan isinf isfinite backward scale")
"""Functions that neither change nor keep what they are given."""
LOOKED_AT = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.FormattedValue, ast.Expr)


def keeps_its_numbers(tensor: ast.expr, loop: Loop, site: Site, look: Look) -> bool:
    """Whether each turn makes a new one, by an operation that is seen to run by itself, and nothing
    in the loop writes into it. What a model or an unknown function gives is not known to be new:
    compiled with CUDA graphs it puts each result where the last one was."""
    if CAPTURES.search(look.text):
        return False
    if not isinstance(tensor, ast.Name):
        return _is_new(tensor, site, look)
    bindings = site.function.bindings.get(tensor.id, ())
    given = [each for each in bindings if loop.holds(each.line)]
    return (
        bool(given)
        and all(each.how == "value" and _is_new(each.value, site, look) for each in given)
        and all(
            _is_looked_at(name, above, look)
            for name, above in occurrences(loop.node, tensor.id)
            if isinstance(name.ctx, ast.Load)
        )
    )


def _is_new(node: ast.expr | None, site: Site, look: Look) -> bool:
    """Whether it is computed into memory of its own."""
    match node:
        case ast.BinOp() | ast.UnaryOp(op=ast.USub()):
            return True
        case ast.Call(func=ast.Attribute(attr=name)) if name in REDUCTIONS:
            return True
        case ast.Call():
            if look.dotted(node.func).startswith("torch.nn.functional."):
                return not keyword(node, "inplace")
            return bool(losses_made(node, site, look))
    return False


def losses_made(call: ast.Call, site: Site, look: Look) -> list[ast.Call]:
    """``nn.MSELoss()`` or its like, of what is called as it was made; none where it may be another
    thing."""
    made = [each.value if each is not None else None for each in _made(call.func, site, look)]
    losses = [
        each
        for each in made
        if isinstance(each, ast.Call)
        and look.dotted(each.func).startswith("torch.nn.")
        and called_name(each).endswith("Loss")
    ]
    return losses if len(losses) == len(made) else []


def _made(called: ast.expr, site: Site, look: Look) -> list[Binding | None]:
    """All that may have made what is called; None for what is not known."""
    owner = site.function.owner
    if isinstance(called, ast.Name):
        return [look.values.definition(called.id, called.lineno, site.function)[0]]
    if isinstance(called, ast.Attribute) and is_own_attribute(called) and owner is not None:
        return [binding for binding, _ in owner.attributes.get(called.attr, [])] or [None]
    return [None]


def _is_looked_at(name: ast.Name, above: Above, look: Look) -> bool:
    """And no more: ``loss.backward()``, ``scaler.scale(loss)``, ``total += loss``, but not
    ``loss.div_(2)``, ``dist.all_reduce(loss)`` or ``kept = loss``."""
    inner: ast.AST = name
    for outer in reversed(above):
        match outer:
            case ast.Attribute(attr=attribute) if attribute.endswith("_"):
                return False
            case ast.Attribute(attr=attribute):
                pass
            case ast.Call(func=func) if func is inner:
                if called_name(outer) in READS:
                    return True
            case ast.Call():
                return called_name(outer) in TAKES or _is_pure(outer, look)
            case ast.AugAssign(value=value):
                return value is inner
            case _:
                return isinstance(outer, LOOKED_AT)
        inner = outer
    return False


def _is_pure(call: ast.Call, look: Look) -> bool:
    """Whether it is a function of torch that leaves what it is given as it is."""
    dotted = look.dotted(call.func)
    return look.is_of_torch(call) and "distributed" not in dotted and not dotted.endswith("_")
