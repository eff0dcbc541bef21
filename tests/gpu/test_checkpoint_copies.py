"""Copies of a CUDA state to host memory. Run by `make gpu-test`."""

from pathlib import Path

import pytest
import torch

from checkpoints import make_manifest
from hasten.checkpoint.background import BackgroundWriter
from hasten.checkpoint.host_buffers import HostBuffers
from hasten.checkpoint.store import Content, Store

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def test_buffers_are_pinned_and_kept() -> None:
    buffers = HostBuffers()
    weight = torch.randn(1000, 1000, device="cuda")
    tensors = [weight, weight, weight.t(), torch.tensor(3), torch.empty(0, device="cuda")]
    first = buffers.copy(tensors)
    assert all(each.is_pinned() for each in first if each.numel())
    assert all(torch.equal(host, each.cpu()) for host, each in zip(first, tensors, strict=True))
    again = buffers.copy(tensors)
    assert [each.data_ptr() for each in again] == [each.data_ptr() for each in first]


def test_a_cuda_state_is_saved_as_it_was_when_save_returned(tmp_path: Path) -> None:
    weight = torch.ones(1 << 24, device="cuda")
    with Store(tmp_path) as store, BackgroundWriter(store) as writer:
        for step in (1, 2, 3):
            for _ in range(100):  # queued on the device when save is called
                weight.add_(1)
            wanted = 1.0 + 100 * step
            writer.save(Content(make_manifest(step), {"w": weight}, None, {}))
            weight.fill_(-1)
            writer.wait()
            assert store.read(step).model["w"].unique().tolist() == [wanted]
            weight.fill_(wanted)
