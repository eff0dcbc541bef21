"""What the tests of checkpoints write."""

import msgspec
import torch

from hasten.checkpoint.codec import encode
from hasten.checkpoint.store import Content
from hasten.records.checkpoint import CHECKPOINT_FORMAT, Manifest, Position


def make_manifest(step: int, *, healthy: bool = True) -> Manifest:
    return Manifest(
        format=CHECKPOINT_FORMAT,
        hasten="0",
        torch="0",
        created="today",
        task="gallery:bloom",
        seed=7,
        plan={},
        position=Position(step=step, epoch=1, batches=2),
        batches_per_epoch=10,
        healthy=healthy,
        weights={"weight": "float32[4, 3]"},
        optimizers=("AdamW of 2 weights",),
        schedulers=(),
        files=(),
    )


def make_content(step: int, *, healthy: bool = True, numbers: int = 12, seed: int = 7) -> Content:
    """Its weights tell the step."""
    skeleton, tensors = encode({"state": {0: torch.full((numbers,), -float(step))}}, "optimizer 0")
    weight = torch.full((numbers,), float(step))
    return Content(
        manifest=msgspec.structs.replace(make_manifest(step, healthy=healthy), seed=seed),
        model={"weight": weight, "tied": weight},
        skeleton=skeleton,
        tensors=tensors,
    )
