"""Decoding what is on a real device: the same as on the host, in one copy."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from hasten.data.encoders import NGrams, Tokenizer, WindowDataset, tensor_to_bits

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_probabilities_on_a_device_come_to_the_host_in_one_copy(dtype: torch.dtype) -> None:
    ngrams = NGrams()
    probabilities = torch.rand(64, len(ngrams)).to("cuda", dtype)
    ngrams.decode(probabilities)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        found = ngrams.decode(probabilities)
        torch.cuda.synchronize()
    assert found == ngrams.decode(probabilities.cpu())
    copies = [event.name for event in profiled.events() if "Memcpy DtoH" in event.name]
    assert len(copies) == 1


def test_bits_and_tokens_on_a_device_are_read_as_on_the_host() -> None:
    bits = torch.rand(9, 33, device="cuda") > 0.5
    assert tensor_to_bits(bits) == tensor_to_bits(bits.cpu())
    ids = torch.randint(0, 5, (9, 33), device="cuda")
    tokenizer = Tokenizer("ACGT")
    assert tokenizer.decode(ids) == tokenizer.decode(ids.cpu())


def test_windows_of_series_on_a_device_are_gathered_there() -> None:
    series = [torch.randn(20, 3), torch.randn(11, 3)]
    data, on_device = (
        WindowDataset([each.to(where) for each in series], length=5) for where in ("cpu", "cuda")
    )
    (found,) = on_device.gather([3, 17, 3])
    assert found.is_cuda
    assert torch.equal(found.cpu(), data.gather([3, 17, 3])[0])
