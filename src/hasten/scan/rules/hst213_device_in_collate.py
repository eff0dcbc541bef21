"""Copies to the device where samples are prepared."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look
from hasten.scan.moves import moves_to_device
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class DeviceInCollate(Rule):
    code = "HST213"
    name = "device-in-collate"
    why = (
        "What prepares samples runs in the workers of the loader: a copy there keeps the loader"
        " from using any, is done sample by sample, and cannot be pinned."
    )
    instead = "Return host tensors, set `pin_memory=True`, and copy the batch in the loop."
    calls = ("to", "cuda")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Encoder:
    def smart_collate(self, batch):
        labels = torch.tensor([each.label for each in batch]).to(self.device)  # !
        return {name: each.cuda() for name, each in batch[0].items()}, labels  # !
""",
        """\
import torch
from torch.utils.data import Dataset

class Rows(Dataset):
    def __init__(self, rows, device):
        self.rows = rows.to(device)
        self.device = device

    def __getitem__(self, index):
        return self.rows[index].to(self.device)  # !
""",
        """\
import torch

def collate(batch):
    return torch.stack(batch).to(torch.float32).to("cpu")
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if moves_to_device(site.node) and look.heats.makes_batches(site.function):
            yield Found(site.node, f"`{look.source(site.node)}` copies where samples are prepared")
