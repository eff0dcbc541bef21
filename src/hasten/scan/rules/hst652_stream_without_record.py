"""A tensor that is made on one stream and used on another."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, is_constant, keyword
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class StreamWithoutRecord(Rule):
    code = "HST652"
    name = "stream-without-record"
    why = (
        "Memory belongs to the stream that it was made on: once the tensor is gone it is given away"
        " there, while the other stream may still read it."
    )
    instead = "Call `tensor.record_stream(torch.cuda.current_stream())` where it is handed over."
    effort = "a minute"
    verify = "Compare losses with those of the plain copy over an epoch."
    calls = ("to", "cuda")
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Prefetcher:
    def preload(self):
        with torch.cuda.stream(self.stream):
            self.batch = {
                k: v.to(self.device, non_blocking=True)  # !
                for k, v in next(self.loader).items()
            }

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        batch = self.batch
        self.preload()
        return batch
""",
        """\
import torch

class Prefetcher:
    def preload(self):
        with torch.cuda.stream(self.stream):
            self.batch = next(self.loader).cuda(non_blocking=True)

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        batch = self.batch
        batch.record_stream(torch.cuda.current_stream())
        self.preload()
        return batch

def send(x, device):
    return x.to(device, non_blocking=True)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.block is None or not is_constant(keyword(site.node, "non_blocking"), True):
            return
        on_stream = any(
            isinstance(item.context_expr, ast.Call)
            and look.dotted(item.context_expr.func) == "torch.cuda.stream"
            for block in site.block.outwards()
            if isinstance(block.node, ast.With)
            for item in block.node.items
        )
        if on_stream and "wait_stream" in look.text and "record_stream" not in look.text:
            yield Found(site.node, "this memory may be given away while another stream reads it")
