"""A copy that is not to block, from memory that is not pinned."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, is_constant, keyword, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

PAGEABLE = ("from_numpy", "tensor", "as_tensor", "FloatTensor", "LongTensor", "Tensor")


class NonBlockingFromPageable(Rule):
    code = "HST651"
    name = "non-blocking-from-pageable"
    why = (
        "Only pinned memory can be copied in the background: from any other, `non_blocking=True`"
        " blocks as before."
    )
    instead = "Let the loader pin its batches: `DataLoader(..., pin_memory=True)`."
    effort = "a minute"
    calls = ("to", "cuda")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, batches, device):
    for step in range(1000):
        x = torch.from_numpy(batches[step]).to(device, non_blocking=True)  # !
        model(x).backward()
""",
        """\
import torch
from torch.utils.data import DataLoader

def train(model, dataset):
    loader = DataLoader(dataset, batch_size=8, num_workers=4)
    for x, y in loader:
        x = x.cuda(non_blocking=True)  # !
        model(x, y).backward()
""",
        """\
import torch
from torch.utils.data import DataLoader

def train(model, dataset, other, device):
    for x, y in DataLoader(dataset, batch_size=8, pin_memory=True):
        x = x.to(device, non_blocking=True)
        model(x, y).backward()
    for x, y in other:
        x = x.to(device, non_blocking=True)
        z = torch.from_numpy(y).pin_memory().to(device, non_blocking=True)
        model(x, torch.from_numpy(y).to(device), z).backward()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if not is_constant(keyword(site.node, "non_blocking"), True):
            return
        moved = receiver(site.node)
        if isinstance(moved, ast.Call):
            pageable = called_name(moved) in PAGEABLE and look.is_of_torch(moved)
        else:
            pageable = isinstance(moved, ast.Name) and _is_of_plain_loader(moved, site, look)
        if pageable:
            yield Found(site.node, "`non_blocking` does nothing: this memory is not pinned")


def _is_of_plain_loader(node: ast.Name, site: Site, look: Look) -> bool:
    """Whether it comes from a loader that is made here and does not pin."""
    binding, _ = look.values.definition(node.id, node.lineno, site.function)
    if binding is None or binding.how != "loop":
        return False
    over = binding.value
    while isinstance(over, ast.Call) and called_name(over) in ("enumerate", "tqdm") and over.args:
        over = over.args[0]
    made = look.values.given(over, site.function)
    if not isinstance(made, ast.Call) or called_name(made) != "DataLoader":
        return False
    pins = keyword(made, "pin_memory")
    return is_constant(pins, False) or (
        pins is None and len(made.args) < 8 and all(word.arg is not None for word in made.keywords)
    )
