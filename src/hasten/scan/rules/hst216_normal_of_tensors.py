"""``torch.normal`` with a tensor of deviations."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, argument
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class NormalOfTensors(Rule):
    code = "HST216"
    name = "normal-of-tensors"
    why = (
        "With a tensor as `std`, `torch.normal` first checks that all of it is not negative, and"
        " waits for the answer."
    )
    instead = "`mean + std * torch.randn_like(mean)`."
    risk = "the numbers are rounded otherwise"
    calls = ("normal",)
    waits = True
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, loader, optimizer, n):
    mean = torch.zeros(n, device="cuda")
    std = mean + 1
    for x in loader:
        noise = torch.normal(mean=mean, std=std)  # !
        model(x, noise).backward()
""",
        """\
import torch

def train(model, loader, optimizer, n):
    for x in loader:
        noise = torch.normal(0.0, 1.0, size=(n,), device="cuda")
        noise = noise + torch.normal(torch.zeros(n), torch.ones(n))
        model(x, noise).backward()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        std = argument(site.node, 1, "std")
        if look.is_of_torch(site.node) and look.is_on_device(std, site):
            yield Found(site.node, f"`{look.source(site.node)}` checks its `std` and waits for it")
