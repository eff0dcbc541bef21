"""Python objects that are sent between ranks in a hot place."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class ObjectsBetweenRanks(Rule):
    code = "HST509"
    name = "objects-between-ranks"
    why = (
        "Objects are pickled, their sizes exchanged first, the bytes copied to the device and back:"
        " two collectives and several waits."
    )
    instead = "Send a tensor with `all_gather` or `all_reduce`, or send objects once an epoch."
    calls = (
        "all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list",
        "broadcast_object", "all_gather_list", "all_gather_objects", "allgather_object",
    )  # fmt: skip
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
import torch.distributed as dist

def evaluate(model, loader, size):
    for x, y in loader:
        found = [None] * size
        dist.all_gather_object(found, model(x).tolist())  # !
""",
        """\
import torch
from accelerate.utils import gather_object

def evaluate(model, loader):
    texts = []
    for x in loader:
        count = sum(all_gather_list(len(x)))  # !
        texts += gather_object(decode(model(x)))  # !
    return texts
""",
        """\
import torch
import torch.distributed as dist

def evaluate(model, loader, size):
    mine = [model(x) for x in loader]
    found = [None] * size
    dist.all_gather_object(found, mine)
    return found
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        yield Found(site.node, f"`{look.source(site.node.func)}` pickles between ranks every step")
