"""A thread-safe queue where only one thread is."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name


class LockedQueue(Rule):
    code = "HST423"
    name = "locked-priority-queue"
    why = "Each `put` and `get` takes a lock and notifies threads that are not there."
    instead = "Use `heapq` on a list, or keep the best with `torch.topk`."
    effort = "a minute"
    calls = ("PriorityQueue",)
    needs_torch = False
    least = Heat.ONCE
    severity = "low"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import queue
import torch

def best(scores, k):
    found = queue.PriorityQueue()
    for i, score in enumerate(scores.tolist()):
        found.put((score, i))  # !
        if i >= k:
            found.get()  # !
    return found
""",
        """\
import heapq
import torch

def best(scores, k):
    found = []
    for i, score in enumerate(scores.tolist()):
        heapq.heappush(found, (score, i))
    return found
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        statement = site.statement
        if not isinstance(statement, ast.Assign):
            return
        name = last_name(statement.targets[0])
        for each in site.function.calls:
            is_used = each.called in ("put", "get") and each.loop is not None
            if is_used and last_name(receiver(each.node)) == name:
                yield Found(each.node, f"`{look.source(each.node.func)}` takes a lock every time")
