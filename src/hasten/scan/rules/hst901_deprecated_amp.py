"""Names of mixed precision that are going away."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Edit, Fix
from hasten.scan.arguments import insert_into_call
from hasten.scan.edits import fix_of, replace
from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.nodes import parts_of
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

OLD = ("torch.cuda.amp.", "torch.cpu.amp.")
RENAMED = ("autocast", "GradScaler")
"""Those of torch whose new ones only want the device besides."""
ABOUT = "Writes what it is called since torch 2.3."


class DeprecatedAmp(Rule):
    code = "HST901"
    name = "deprecated-amp"
    why = "`torch.cuda.amp` is deprecated: it warns, and will go."
    instead = "Write `torch.autocast('cuda')` and `torch.amp.GradScaler('cuda')`."
    effort = "a minute"
    calls = ("autocast", "GradScaler", "custom_fwd", "custom_bwd")
    nodes = (ast.ImportFrom,)
    least = Heat.ONCE
    severity = "info"
    default = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

scaler = torch.cuda.amp.GradScaler(1024.0, enabled=True)  # !

def run(model, x, enabled):
    with torch.cuda.amp.autocast(enabled), torch.cuda.amp.autocast():  # !
        loss = model(x)
    with torch.cpu.amp.autocast(dtype=torch.bfloat16):  # !
        return loss + model(x)
""",
        """\
import torch
from torch.cuda.amp import GradScaler as Scaler, autocast  # !

@autocast()  # !
def run(model, x):
    with autocast(), autocast(enabled=False):  # !
        return model(x), Scaler()
""",
        """\
import torch
from torch.amp import GradScaler, autocast

def run(model, x):
    with autocast("cuda"), torch.autocast("cuda"):
        return model(x)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node = site.node
        if isinstance(node, ast.ImportFrom):
            if f"{node.module}." in OLD and not node.level:
                yield Found(node, _message(node, look), _rename_import(node, look))
        elif look.dotted(node.func).startswith(OLD):
            yield Found(node, _message(node, look), _rename_call(node, look))


def _message(node: ast.AST, look: Look) -> str:
    return f"`{look.source(node)}` is deprecated"


def _rename_call(call: ast.Call, look: Look) -> Fix | None:
    """Where it is written in full; what was imported is renamed together with its import."""
    written = re.fullmatch(r"torch\.(cuda|cpu)\.amp\.(\w+)", look.lines.of(call.func))
    if written is None or written[2] not in RENAMED:
        return None
    renamed = replace(look.lines, call.func, f"torch.amp.{called_name(call)}")
    return fix_of("safe", ABOUT, renamed, _name_device(call, written[1], written[2], look))


def _rename_import(node: ast.ImportFrom, look: Look) -> Fix | None:
    written = re.match(r"from\s+(torch\.(cuda|cpu)\.amp)\s", look.lines.of(node))
    if written is None or any(each.name not in RENAMED for each in node.names):
        return None
    start = look.lines.start(node)
    edits: list[Edit | None] = [
        look.lines.edit(start + written.start(1), start + written.end(1), "torch.amp")
    ]
    for each in node.names:
        for used, call in _uses(each.asname or each.name, look):
            if not isinstance(call, ast.Call) or call.func is not used:
                return None
            edits.append(_name_device(call, written[2], each.name, look))
    return fix_of("safe", ABOUT, *edits)


def _uses(name: str, look: Look) -> Iterator[tuple[ast.Name, ast.AST]]:
    """With what each stands in, the last first. Most statements are not looked into: the name is
    not in their text."""
    tree = look.outline.tree
    open_: list[tuple[ast.AST, ast.AST]] = [(each, tree) for each in tree.body]
    while open_:
        node, above = open_.pop()
        if isinstance(node, ast.Name):
            if node.id == name:
                yield node, above
        elif not isinstance(node, ast.stmt) or name in look.lines.of(node):
            open_ += [(each, node) for each in parts_of(node)]


def _name_device(call: ast.Call, device: str, name: str, look: Look) -> Edit | None:
    """``autocast`` was given first whether it is on, and is now given it by name."""
    if any(isinstance(each, ast.Starred) for each in call.args):
        return None
    if name == "autocast" and call.args:
        more = ", enabled=" if len(call.args) == 1 else None
    else:
        more = ", " if call.args or call.keywords else ""
    return insert_into_call(look.lines, call, f'"{device}"{more}') if more is not None else None
