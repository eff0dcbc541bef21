"""What several rules ask about a training loop: what steps an optimizer, whether gradients are
added up over batches, whether ranks work together."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from hasten.scan.look import Look, are_alternatives, called_name, is_within, names_in, receiver
from hasten.scan.nodes import walk
from hasten.scan.outline import Block, Function, Loop, Site

RANKS = re.compile(r"\b(DistributedDataParallel|init_process_group|Accelerator|Fabric)\b")
OPTIMIZER = re.compile(r"(^|_)opt(im\w*)?(_\w+)?$", re.IGNORECASE)
RANK_WORDS = re.compile(r"rank|is_main|main_process|master|is_global_zero|primary", re.IGNORECASE)
EVALUATION = re.compile(
    r"(^|_)(val|valid|validation|test|eval|evaluation|dev)(_|$)|^(val|test|eval)"
)


def is_distributed(look: Look) -> bool:
    """Whether the file has to do with training on several ranks."""
    return RANKS.search(look.text) is not None


def is_rank_guard(test: ast.expr) -> bool:
    """Whether a condition chooses a rank."""
    return any(RANK_WORDS.search(each) for each in names_in(test))


def is_scaler(node: ast.expr | None, site: Site, look: Look) -> bool:
    if node is None:
        return False
    if look.value(node, site).kind == "scaler":
        return True
    return last_name(node).lower().endswith("scaler")


def steps_optimizer(site: Site, look: Look) -> bool:
    """Of a call of ``step``: whether weights change by it."""
    stepped = receiver(site.node)
    if stepped is None:
        return False
    if is_scaler(stepped, site, look):
        return bool(site.node.args)
    kind = look.value(stepped, site).kind
    return kind == "optimizer" or (
        kind == "unknown" and OPTIMIZER.search(last_name(stepped)) is not None
    )


def optimizer_steps(function: Function, look: Look) -> Iterator[Site]:
    return (each for each in look.calls_in(function, "step") if steps_optimizer(each, look))


def backwards(function: Function, look: Look) -> Iterator[Site]:
    return look.calls_in(function, "backward", "manual_backward")


def last_name(node: ast.expr) -> str:
    """``b`` of ``a.b`` and of ``a.b[0]``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Call):
        return called_name(node)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


@dataclass(frozen=True)
class Window:
    """``if (i + 1) % count == 0: optimizer.step()``, with a backward pass at every turn."""

    test: ast.If
    condition: ast.expr
    """Of the test, or what a name in it was given."""
    count: ast.expr
    loop: Loop | None
    """None where the function does one batch, and is called in a loop."""
    step: Site


def window_of(step: Site, look: Look) -> Window | None:
    """The accumulation that an optimizer's step ends."""
    loop = steps_of(step)
    if step.block is None or (loop is not None and not loop.has_backward):
        return None
    for block in step.block.outwards():
        if loop is not None and block.node is loop.node:
            return None
        if isinstance(block.node, ast.If) and block.branch == "body":
            condition, count = _remainder(block.node.test, step.function, look)
            if count is not None and _only_steps(block, step, look):
                return Window(block.node, condition, count, loop, step)
    return None


def steps_of(site: Site) -> Loop | None:
    """The loop that a place is in, without one that only goes over the optimizers."""
    loop = site.loop
    while loop is not None and any(OPTIMIZERS.search(each) for each in names_in(loop.header()[1])):
        loop = loop.outer
    return loop


OPTIMIZERS = re.compile(r"^_?(\w+_)?(optim|optimizer)s_?$")


def _remainder(test: ast.expr, function: Function, look: Look) -> tuple[ast.expr, ast.expr | None]:
    """The condition, and what it takes a remainder of; a name in it is followed."""
    for each in walk(test):
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mod):
            return test, each.right
    if isinstance(test, ast.Name):
        given = look.values.given(test, function)
        if isinstance(given, ast.Compare | ast.BoolOp | ast.UnaryOp):
            return _remainder(given, function, look)
    return test, None


def _only_steps(block: Block, step: Site, look: Look) -> bool:
    """Whether backward passes and steps are on different sides of the condition: networks that are
    trained in turns have both on each."""
    passes = _beside(step, backwards(step.function, look))
    steps = _beside(step, optimizer_steps(step.function, look))
    return (
        bool(passes)
        and not any(is_within(each, block) for each in passes)
        and all(is_within(each, block) for each in steps)
    )


def _beside(step: Site, others: Iterator[Site]) -> list[Site]:
    """Those of the same loop that run together with a step."""
    loop = steps_of(step)
    return [each for each in others if steps_of(each) is loop and not are_alternatives(each, step)]
