"""A layer called with the same arguments in every turn of a loop."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, receiver
from hasten.scan.outline import Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import calls_in, names, root_name
from hasten.scan.vocabulary import words

SAME = words("matmul einsum softmax normalize quantile exp log arange linspace cos sin outer")
CHANGES = words("update append extend pop add put load_state_dict")
TRAINS = words("backward manual_backward step minimize")


class InvariantLayer(Rule):
    code = "HST412"
    name = "invariant-layer-in-loop"
    why = "It computes the same result in every turn."
    instead = "Call it once before the loop."
    effort = "a minute"
    nodes = (ast.Assign,)
    in_loops = True
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        size = x.shape[-2:]
        for block in self.blocks:
            rope = self.encoder.rope_embed(size[0], size[1])  # !
            x = block(x, rope)
        return x

class Vae(torch.nn.Module):
    def nll(self, x, n):
        found = []
        for i in range(n):
            wide = torch.cat(100 * [x])
            hidden = self.encoder(wide)  # !
            found.append(self.decoder(hidden + torch.randn_like(hidden)))
        return found
""",
        """\
import torch

class Net(torch.nn.Module):
    def forward(self, x, size):
        rope = self.rope_embed(size)
        for block in self.blocks:
            x = block(x, rope)
            y = self.head(x)
            seed = self.sample()
            noise = self.draw_random(size)
        return x, y
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call = site.node.value
        if site.loop is None or not isinstance(call, ast.Call) or isinstance(call.func, ast.Name):
            return
        given = [*call.args, *(word.value for word in call.keywords)]
        if not any(True for each in given for _ in names(each)):
            return
        if not _is_pure(call, site, look) or _differs(call, site.loop, look):
            return
        if not _changes(given, site.loop):
            yield Found(call, f"`{look.source(call.func)}` is given the same in every turn")


def _differs(node: ast.expr, loop: Loop, look: Look, steps: int = 3) -> bool:
    """Whether it reads what a turn of the loop makes anew, other than from the same by a function
    that always gives the same."""
    for name in set(names(node)):
        given = [each for each in loop.function.bindings.get(name, ()) if loop.holds(each.line)]
        if not given:
            continue
        made = given[0].value
        if len(given) > 1 or given[0].how != "value" or not isinstance(made, ast.Call) or not steps:
            return True
        if not _only_copies(made, look) or _differs(made, loop, look, steps - 1):
            return True
    return False


def _only_copies(call: ast.Call, look: Look) -> bool:
    """``torch.cat(n * [x])`` and ``x.repeat(n, 1)``."""
    if called_name(call) not in COPIES:
        return False
    return look.is_of_torch(call) or receiver(call) is not None


COPIES = words("cat stack repeat repeat_interleave tile expand unsqueeze view reshape flatten")


def _is_pure(call: ast.Call, site: Site, look: Look) -> bool:
    """Whether it is a part of a module, or a function of torch that only computes."""
    dotted = look.dotted(call.func)
    if dotted.startswith("torch"):
        return dotted.rpartition(".")[2] in SAME
    if not dotted.startswith("self.") or any(word in dotted for word in DRAWS):
        return False
    owner = site.function.owner
    if owner is None or not look.values.is_module(owner):
        return False
    return not (dotted.count(".") == 1 and called_name(call) in owner.methods)


DRAWS = ("rand", "sampl", "noise", "drop", "next", "draw", "cell", "rnn", "lstm", "gru", "optim")


def _changes(given: list[ast.expr], loop: Loop) -> bool:
    """Whether the loop may change what is given without giving it a new value."""
    held = {name for each in given for name in names(each)} - {"self"}
    for each in calls_in(loop):
        name = each.called
        if name in TRAINS:
            return True
        if root_of(each.node.func) in held and (name.endswith("_") or name in CHANGES):
            return True
    body = loop.node.body if isinstance(loop.node, ast.For | ast.While) else []
    targets = (
        target
        for statement in body
        if isinstance(statement, ast.Assign | ast.AugAssign)
        for target in (
            statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        )
    )
    return any(
        isinstance(each, ast.Subscript | ast.Attribute) and root_of(each) in held
        for each in targets
    )


def root_of(node: ast.expr) -> str:
    root = root_name(node)
    return root.id if root is not None else ""
