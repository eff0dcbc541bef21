"""Whether a tensor is seen to have no dims; ``.item()`` also takes one of shape (1,)."""

import ast

from hasten.scan.look import Look, called_name, keyword, receiver
from hasten.scan.outline import Loop, Site
from hasten.scan.own_memory import losses_made
from hasten.scan.reads import REDUCTIONS


def is_scalar(node: ast.expr | None, loop: Loop, site: Site, look: Look) -> bool:
    """Of what the loop computes; a name by all that the loop gives it."""
    if not isinstance(node, ast.Name):
        return _is_computed(node, site, look)
    bindings = site.function.bindings.get(node.id, ())
    given = [each for each in bindings if loop.holds(each.line)]
    return bool(given) and all(
        each.how == "value" and _is_computed(each.value, site, look) for each in given
    )


def _is_computed(node: ast.expr | None, site: Site, look: Look) -> bool:
    while True:
        match node:
            case ast.BinOp(left=inner, right=ast.Constant()):
                node = inner
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                node = inner
            case _:
                break
    if not isinstance(node, ast.Call):
        return False
    name = called_name(node)
    if name in REDUCTIONS:
        held = receiver(node)
        taken = 1 if held is None or look.is_of_torch(node) else 0
        return len(node.args) == taken and not node.keywords
    if look.dotted(node.func).startswith("torch.nn.functional."):
        return name.endswith(("loss", "cross_entropy")) and keyword(node, "reduction") is None
    made = losses_made(node, site, look)
    return bool(made) and not any(each.args or keyword(each, "reduction") for each in made)
