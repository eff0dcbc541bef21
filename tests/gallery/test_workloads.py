"""What all bundled workloads have in common, and the shapes that their full sizes promise."""

import importlib
import os
import subprocess
import sys
import time
from functools import cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from hasten.errors import HastenError
from hasten.gallery.battery.model import ChargeNetwork
from hasten.gallery.bloom.model import BloomMLP
from hasten.gallery.gpt.model import GPT
from hasten.gallery.lensing.model import ResNet18
from hasten.gallery.microbiome.model import SampleTransformer
from hasten.gallery.transformer import Block
from hasten.runtime.evaluate import evaluate
from hasten.runtime.run import Run
from hasten.task.load import build_task, load_factory
from hasten.task.pipeline import Pipeline
from hasten.task.seed import random_state, seed_everything
from hasten.task.task import Task

HERE = Path(__file__).parent
WORKLOADS = ["battery", "bloom", "gpt", "lensing", "microbiome"]
STEPS = 60
PARAMETERS = {
    # 4 * 128 * (3 + 128 + 2) and 4 * 128 * (128 + 128 + 2) of the layers, 129 of the head
    "battery": (ChargeNetwork, 200_321),
    # 1024 * 512 + 512, 512 * 256 + 256 and 256 * 676 + 676
    "bloom": (BloomMLP, 829_860),
    # resnet18(num_classes=2) of torchvision: 11,689,512 less 998 classes of 513 each
    "lensing": (ResNet18, 11_177_538),
    # 8 blocks of 198,272, 150 positions and 6 tokens of 128, 17 outputs of 129 of the head
    "microbiome": (SampleTransformer, 1_608_337),
    # GPT-2: 12 blocks of 7,087,872, 50,257 tokens and 1,024 positions of 768, the last norm
    "gpt": (GPT, 124_439_808),
}


def make_task(name: str, seed: int = 0) -> Task:
    return build_task(load_factory(f"gallery:{name}@small"), name, seed)


@cache
def shared_task(name: str) -> Task:
    """To be looked at, not trained."""
    return make_task(name)


def tensors_of(data: object) -> tuple[Tensor, ...]:
    assert isinstance(data, TensorDataset)
    return data.tensors


def train_plainly(task: Task, steps: int) -> list[float]:
    run = Run(Pipeline.from_task(task))
    return [float(run.step(batch)) for batch in islice(run.endless(), steps)]


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_same_seed_builds_the_same_task(name: str) -> None:
    first, again = shared_task(name), make_task(name)
    for a, b in zip(tensors_of(first.data), tensors_of(again.data), strict=True):
        assert torch.equal(a, b)
    for a, b in zip(first.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_data_are_the_same_in_another_process_with_other_threads_and_hashes() -> None:
    setting = {"OMP_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "3", "PYTHONHASHSEED": "5"}
    code = "import test_workloads; print(test_workloads.digests())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **setting, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.strip() == str(digests())


def digests() -> list[str]:
    """Of the training and evaluation data of every workload."""
    found = []
    for name in WORKLOADS:
        task = shared_task(name)
        tensors = [*tensors_of(task.data), *tensors_of(task.evaluation_data)]
        found.append(sha256(b"".join(each.numpy().tobytes() for each in tensors)).hexdigest())
    return found


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_seed_of_a_run_changes_the_model_but_not_the_data(name: str) -> None:
    task, other = shared_task(name), make_task(name, seed=1)
    for a, b in zip(tensors_of(task.data), tensors_of(other.data), strict=True):
        assert torch.equal(a, b)
    pairs = zip(task.model.parameters(), other.model.parameters(), strict=True)
    assert any(not torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("name", WORKLOADS)
def test_training_and_evaluation_are_different_data(name: str) -> None:
    task = shared_task(name)
    training, evaluation = tensors_of(task.data)[0], tensors_of(task.evaluation_data)[0]
    assert not torch.equal(training[: len(evaluation)], evaluation)


@pytest.mark.parametrize("name", WORKLOADS)
def test_making_data_leaves_the_global_random_generators_untouched(name: str) -> None:
    module = importlib.import_module(f"hasten.gallery.{name}.task")
    size = module.SIZES["small"]
    lengths = {
        "battery": lambda: (size, 1),
        "bloom": lambda: (8,),
        "lensing": lambda: (8, size.pixels),
        "microbiome": lambda: (size, 8),
        "gpt": lambda: (np.arange(1000), 8, size.length),
    }
    seed_everything(3)
    before = random_state()
    module.make_dataset(*lengths[name](), seed=1)
    after = random_state()
    assert after["python"] == before["python"]
    assert str(after["numpy"]) == str(before["numpy"])
    assert torch.equal(after["torch"], before["torch"])


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_model_learns(name: str) -> None:
    start = time.perf_counter()
    task = make_task(name)
    losses = train_plainly(task, STEPS)
    first, last = mean(losses[:10]), mean(losses[-10:])
    print(f"{name}: {first:.4f} to {last:.4f} in {time.perf_counter() - start:.1f} s")
    assert last < 0.9 * first


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_metrics_can_be_computed(name: str) -> None:
    task = make_task(name)
    found = evaluate(task)
    assert found.keys() - {"loss"} == task.metrics.keys()
    assert ("loss" in found) is (task.initial_state is None)
    assert all(value == value for value in found.values())


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_full_model_has_the_parameters_of_its_original(name: str) -> None:
    make_model, expected = PARAMETERS[name]
    with torch.device("meta"):
        model = make_model()
    assert sum(each.numel() for each in model.parameters()) == expected


FULL = {
    "battery": {"training_rows": 60_000, "length": 200, "hidden": 128, "batch_size": 100},
    "bloom": {"training_rows": 100_000},
    "lensing": {"training_rows": 6_000, "pixels": 64, "width": 64, "batch_size": 64},
    "microbiome": {
        "training_rows": 512,
        "tips": 1000,
        "sequences": 128,
        "length": 150,
        "width": 128,
        "blocks": 4,
        "batch_size": 8,
    },
    "gpt": {
        "training_rows": 4_000,
        "vocabulary": 50_257,
        "length": 1024,
        "width": 768,
        "heads": 12,
        "blocks": 12,
        "batch_size": 16,
    },
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_full_size_is_the_documented_one(name: str) -> None:
    size = importlib.import_module(f"hasten.gallery.{name}.task").SIZES["full"]
    assert {field: getattr(size, field) for field in FULL[name]} == FULL[name]


def test_a_module_of_the_gallery_that_is_no_workload_is_not_offered() -> None:
    with pytest.raises(HastenError) as raised:
        load_factory("gallery:transformer")
    assert "transformer" in raised.value.what
    with pytest.raises(HastenError) as raised:
        load_factory("gallery:nothing")
    assert "transformer" not in f"{raised.value.what} {raised.value.fix}"


@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention_and_the_one_by_hand_are_one_formula(causal: bool) -> None:
    torch.manual_seed(2)
    block = Block(width=32, heads=4, causal=causal).double()
    inputs = torch.randn(3, 11, 32, dtype=torch.float64, requires_grad=True)
    fused, by_hand = [_output_and_gradient(block, inputs, fused) for fused in (True, False)]
    for a, b in zip(fused, by_hand, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def _output_and_gradient(block: Block, inputs: Tensor, fused: bool) -> tuple[Tensor, Tensor]:
    block.fused = fused
    output = block(inputs)
    return output, torch.autograd.grad(output.square().sum(), inputs)[0]


def test_a_causal_block_does_not_see_what_comes_later() -> None:
    torch.manual_seed(2)
    block = Block(width=16, heads=2, causal=True)
    inputs = torch.randn(1, 8, 16)
    changed = inputs.clone()
    changed[:, 5:] += 1.0
    torch.testing.assert_close(block(inputs)[:, :5], block(changed)[:, :5])


def test_the_head_of_the_language_model_is_its_embedding() -> None:
    model = shared_task("gpt").model
    assert isinstance(model, GPT)
    assert model.head.weight is model.tokens.weight


def test_the_language_model_begins_near_a_guess_among_all_tokens() -> None:
    task = shared_task("gpt")
    inputs, targets = (tensor[:8] for tensor in tensors_of(task.data))
    loss = task.compute_loss(task.model, (inputs, targets)).item()
    guess = F.cross_entropy(torch.zeros(1, 256), torch.tensor([0])).item()
    assert loss == pytest.approx(guess, rel=0.05)


def test_the_language_model_counts_tokens() -> None:
    task = shared_task("gpt")
    batch = tuple(tensor[:8] for tensor in tensors_of(task.data))
    assert task.count is not None
    assert task.count(batch) == 8 * 64


@cache
def resnet_shapes() -> dict[str, Any]:
    with torch.device("meta"):
        model = ResNet18()
        images = torch.empty(2, 3, 64, 64)
    shapes = {"stem": model.stem(images)}
    for place, stage in enumerate(model.stages):
        previous = next(reversed(shapes.values()))
        shapes[f"stage {place}"] = stage(previous)
    return {name: tuple(value.shape) for name, value in shapes.items()}


def test_the_resnet_shrinks_its_images_as_the_original() -> None:
    assert resnet_shapes() == {
        "stem": (2, 64, 16, 16),
        "stage 0": (2, 64, 16, 16),
        "stage 1": (2, 128, 8, 8),
        "stage 2": (2, 256, 4, 4),
        "stage 3": (2, 512, 2, 2),
    }


def test_blocks_stand_in_sequences() -> None:
    """Techniques look for repeated blocks in them."""
    with torch.device("meta"):
        model = GPT(vocabulary=11, length=4, width=8, heads=2, blocks=3)
    assert isinstance(model.blocks, nn.Sequential)
    assert [type(each) for each in model.blocks] == [Block] * 3
