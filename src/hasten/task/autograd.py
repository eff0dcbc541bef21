"""What a loss was computed by, read from its autograd graph before it is gone backward through.

torch often does something else than it was asked to, without a word: the graph tells what it did.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.autograd.graph import Node

from hasten.records.finding import Place
from hasten.records.traits import Attention
from hasten.task import batch as batches
from hasten.task.places import shown

COMPILED = "CompiledFunction"


def nodes_of(output: Any) -> Iterator[Node]:
    """Every node of the graph behind the tensors of ``output``, each once."""
    todo = [tensor.grad_fn for tensor in batches.tensors_of(output)]
    seen = set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        todo.extend(following for following, _ in node.next_functions)


def has_compiled_code(output: Any) -> bool:
    return any(COMPILED in node.name() for node in nodes_of(output))


def computed_dtypes(output: Any) -> set[torch.dtype]:
    """Types of all that was computed on the way to ``output``.

    Of compiled code the results and what it keeps for the backward pass are known. Tensors that
    other nodes keep are not looked at: activations that are to be computed again would be, now.
    """
    found = set()
    for node in nodes_of(output):
        found |= {each.dtype for each in node._input_metadata}
        if COMPILED in node.name():
            found |= {each.dtype for each in getattr(node, "saved_tensors", ())}
    return found


FUSED_ATTENTION = ("ScaledDotProduct", "SafeSoftmax")  # the second is torch's own unfused way
PRODUCTS = ("BmmBackward", "BaddbmmBackward")
FRAME = re.compile(r'File "(?P<path>.+)", line (?P<line>\d+)')
NEAR = 6
"""Scaling, masking, dropout and views between a softmax and the products around it."""


def attention_in(output: Any) -> tuple[tuple[Attention, ...], Place | None]:
    """Whether attention was computed by torch's own function, or by products around a softmax; and
    where the latter is written, if the graph was made in torch's anomaly mode, which notes that."""
    after: dict[Node, list[Node]] = {}
    for node in nodes_of(output):
        for before, _ in node.next_functions:
            if before is not None:
                after.setdefault(before, []).append(node)
    found: list[Attention] = []
    if any(each in node.name() for node in nodes_of(output) for each in FUSED_ATTENTION):
        found.append("fused")
    by_hand = [
        node
        for node in nodes_of(output)
        if node.name().startswith("SoftmaxBackward")
        and _near_product(node, lambda each: [before for before, _ in each.next_functions])
        and _near_product(node, lambda each: after.get(each, []))
    ]
    if by_hand:
        found.append("hand_written")
    return tuple(found), _place(by_hand[-1]) if by_hand else None


def _place(node: Node) -> Place | None:
    """The innermost line outside of torch that made the node."""
    noted: dict[str, list[str]] = node.metadata  # type: ignore[assignment]
    for frame in reversed(noted.get("traceback_", [])):
        found = FRAME.search(frame)
        if found and not Path(found["path"]).is_relative_to(Path(torch.__file__).parent):
            return Place(path=shown(found["path"]), line=int(found["line"]))
    return None


def _near_product(node: Node, neighbours: Callable[[Node], Iterable[Node | None]]) -> bool:
    here = {node}
    for _ in range(NEAR):
        here = {each for one in here for each in neighbours(one) if each is not None}
        if any(each.name().startswith(PRODUCTS) for each in here):
            return True
    return False
