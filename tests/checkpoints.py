"""What the tests of checkpoints write, break and read."""

from pathlib import Path

import msgspec
import pytest
import torch

from hasten.checkpoint.codec import decode, encode
from hasten.checkpoint.folders import Saved
from hasten.checkpoint.store import Content, Store
from hasten.errors import HastenError
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


def write(folder: Path, *steps: int) -> None:
    with Store(folder, keep=max(2, len(steps))) as store:
        for step in steps:
            store.write(make_content(step))


def refusal(folder: Path, step: int | None = None) -> HastenError:
    with pytest.raises(HastenError) as caught:
        Store(folder).read(step)
    return caught.value


def check_is(saved: Saved, step: int) -> None:
    assert saved.manifest.position.step == step
    assert saved.model["weight"].tolist() == [float(step)] * 12
    assert saved.model["tied"].tolist() == [float(step)] * 12
    state = decode(saved.skeleton, saved.tensors)
    assert state["state"][0].tolist() == [-float(step)] * 12


def flip(path: Path, at: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
