"""A wait for the device while a CUDA graph is captured."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class WaitInCapturedGraph(Rule):
    code = "HST629"
    name = "wait-in-captured-graph"
    why = (
        "A captured graph holds launches only: reading a result, or waiting for one, ends the"
        " capture with an error, and would be missing from every replay."
    )
    instead = "Keep results in tensors while capturing, and read them after `graph.replay()`."
    calls = ("item", "tolist", "cpu", "numpy", "nonzero", "synchronize")
    least = Heat.ONCE
    severity = "high"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def capture(model, x, graph):
    with torch.cuda.graph(graph):
        loss = model(x)
        value = loss.item()  # !
        loss.backward()
    return value
""",
        """\
import torch

def capture(model, x):
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        loss = model(x)
    graph.replay()
    return loss.item()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.block is None or receiver(site.node) is None:
            return
        for block in site.block.outwards():
            if isinstance(block.node, ast.With) and any(
                isinstance(item.context_expr, ast.Call)
                and look.dotted(item.context_expr.func) == "torch.cuda.graph"
                for item in block.node.items
            ):
                yield Found(site.node, f"`{look.source(site.node)}` cannot be captured")
                return
