"""The microbiome workload: its loss couples the batch, and the plain script trains the same."""

import re
import subprocess
import sys
from dataclasses import replace
from itertools import islice

import pytest
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from hasten.gallery.microbiome import naive
from hasten.gallery.microbiome.about import WORKLOAD
from hasten.gallery.microbiome.model import (
    COORDINATES,
    DISTANCE_WEIGHT,
    embedded_distances,
    mean_absolute_error,
    trait_and_distance_loss,
    unifrac_correlation,
)
from hasten.gallery.microbiome.task import SIZES, factory, make_dataset
from hasten.records.plan import Plan
from hasten.runtime.evaluate import evaluate
from hasten.runtime.run import Run
from hasten.task.load import build_task
from hasten.task.pipeline import Pipeline
from hasten.task.task import Task
from hasten.task.traits import read_traits
from hasten.techniques.gradient_accumulation import GradientAccumulationTechnique

STEPS = 50
EPOCHS = 3
"""Half as many as the script trains for by itself: the margin is passed in the second."""


@pytest.fixture(scope="module")
def task() -> Task:
    return make_small_task(seed=0)


def make_small_task(seed: int) -> Task:
    return build_task(factory("small"), "microbiome", seed)


def tensors_of(data: object) -> tuple[Tensor, ...]:
    assert isinstance(data, TensorDataset)
    return data.tensors


def make_batch(rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Outputs, and packed targets of a set of ten samples of which the batch has the last ones."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(10, 3, generator=generator)
    trait = torch.randn(10, 1, generator=generator)
    packed = torch.cat([trait, torch.arange(10.0)[:, None], torch.cdist(points, points)], dim=1)
    return torch.randn(rows, 1 + COORDINATES, generator=generator), packed[10 - rows :]


def test_the_plain_script_and_the_task_have_the_same_losses() -> None:
    torch.manual_seed(5)
    dataset = naive.make_dataset(naive.TRAINING_ROWS, naive.TRAINING_SEED)
    losses = naive.train(naive.MicrobiomeModel().to(naive.device), dataset, epochs=1)
    run = Run(Pipeline.from_task(make_small_task(seed=5)))
    of_task = [float(run.step(batch)) for batch in islice(run.endless(), STEPS)]
    assert len(losses) > STEPS
    assert losses[:STEPS] == pytest.approx(of_task, rel=1e-5)


@pytest.mark.long
def test_the_plain_script_beats_chance_by_the_margin() -> None:
    command = [sys.executable, "-m", "hasten.gallery.microbiome.naive", "--epochs", str(EPOCHS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    *_, correlation, error = done.stdout.splitlines()
    print(f"{correlation}, {error}")
    found = re.fullmatch(r"mean_absolute_error: (\d\.\d+)", error)
    assert found is not None
    assert float(found[1]) < WORKLOAD.chance - WORKLOAD.margin
    assert float(correlation.rpartition(" ")[2]) > 0.5


def test_chance_is_what_it_is_said_to_be(task: Task) -> None:
    """Everybody has the mean of those that were trained on."""
    (_, training), (_, evaluation) = tensors_of(task.data), tensors_of(task.evaluation_data)
    guess = training[:, 0].mean().expand(len(evaluation), 1)
    chance = mean_absolute_error(guess, evaluation).item()
    assert chance == pytest.approx(WORKLOAD.chance, abs=0.001)


def test_what_is_said_of_the_sizes_is_so() -> None:
    said = {each.name: each.shape for each in WORKLOAD.sizes}
    assert said == {
        name: f"{size.training_rows} samples of {size.sequences} reads of {size.length} bases, "
        f"{size.tips:,} kinds of microbes, {size.blocks} + {size.blocks} transformer blocks "
        f"of width {size.width}, batch {size.batch_size}"
        for name, size in SIZES.items()
    }


def test_what_is_said_of_the_metric_is_so(task: Task) -> None:
    metric = task.metrics[WORKLOAD.metric]
    assert metric.higher_is_better is WORKLOAD.higher_is_better


def test_the_script_lists_the_mistakes_that_are_told_of_it() -> None:
    listed = re.findall(r"^- (.+)$", naive.__doc__ or "", re.MULTILINE)
    assert tuple(each.replace("``", "") for each in listed) == WORKLOAD.mistakes


def test_the_loss_is_that_of_the_traits_and_of_every_pair() -> None:
    outputs, targets = make_batch(6)
    of_trait = sum((outputs[i, 0] - targets[i, 0]) ** 2 for i in range(6)) / 6
    pairs = []
    for i in range(6):
        for j in range(i + 1, 6):
            apart = (outputs[i, 1:] - outputs[j, 1:]).norm()
            pairs.append((apart - targets[i, 2 + int(targets[j, 1])]) ** 2)
    expected = of_trait + DISTANCE_WEIGHT * torch.stack(pairs).mean()
    assert trait_and_distance_loss(outputs, targets).item() == pytest.approx(float(expected))


def test_the_order_of_a_batch_does_not_matter() -> None:
    outputs, targets = make_batch(6)
    order = [3, 0, 5, 1, 4, 2]
    loss = trait_and_distance_loss(outputs, targets)
    shuffled = trait_and_distance_loss(outputs[order], targets[order])
    assert shuffled.item() == pytest.approx(loss.item(), rel=1e-6)


def test_two_samples_at_one_place_have_a_gradient() -> None:
    outputs, targets = make_batch(4)
    outputs[1] = outputs[0]
    outputs.requires_grad_()
    trait_and_distance_loss(outputs, targets).backward()
    assert outputs.grad is not None
    assert outputs.grad.isfinite().all()


def test_a_sample_alone_has_the_loss_of_its_trait() -> None:
    outputs, targets = make_batch(1)
    loss = trait_and_distance_loss(outputs, targets)
    assert loss.item() == pytest.approx((outputs[0, 0] - targets[0, 0]).square().item(), abs=1e-6)


def test_distances_of_half_precision_outputs_are_taken_in_single_precision() -> None:
    outputs, _ = make_batch(6)
    assert embedded_distances(outputs.bfloat16()).dtype == torch.float32
    assert embedded_distances(outputs.double()).dtype == torch.float64


def test_correlation_is_one_where_distances_are_those_of_the_tree() -> None:
    outputs, targets = make_batch(10)
    points = torch.rand(10, 3, generator=torch.Generator().manual_seed(0))
    outputs[:, 1:] = 0.0
    outputs[:, 1:4] = 2 * points
    assert unifrac_correlation(outputs, targets).item() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("word", [None, True])
def test_the_probe_finds_that_the_batch_is_coupled(task: Task, word: bool | None) -> None:
    pipeline = Pipeline.from_task(replace(task, couples_batch=word))
    traits = read_traits(pipeline, next(iter(task.make_loader())))
    assert traits.loss_reduction == "coupled"
    assert GradientAccumulationTechnique().unsuited(traits) is not None


@pytest.mark.parametrize("word", [None, True])
def test_accumulation_does_not_split_its_batches(word: bool | None) -> None:
    task = replace(make_small_task(seed=0), couples_batch=word)
    run = Run(Pipeline.from_task(task), Plan(parts={"gradient_accumulation": {"steps": 2}}))
    plain = Run(Pipeline.from_task(make_small_task(seed=0)))
    batch = next(iter(task.make_loader()))
    assert float(run.step(batch)) == float(plain.step(batch))
    assert [each.outcome for each in run.applied] != ["done"]


def test_an_evaluation_has_both_metrics_over_all_samples(task: Task) -> None:
    model = task.model
    inputs, targets = tensors_of(task.evaluation_data)
    found = evaluate(task)
    device = next(model.parameters()).device
    with torch.no_grad():
        outputs = model(inputs.to(device)).cpu()
    error = mean_absolute_error(outputs, targets).item()
    assert found["mean_absolute_error"] == pytest.approx(error, rel=1e-4)
    correlation = unifrac_correlation(outputs, targets).item()
    assert found["unifrac_correlation"] == pytest.approx(correlation, abs=1e-3)


def test_training_samples_carry_the_distances_that_the_script_computes(task: Task) -> None:
    _, targets = tensors_of(task.data)
    assert targets[:, 1].tolist() == list(range(512))
    samples = naive.make_dataset(naive.TRAINING_ROWS, naive.TRAINING_SEED).samples
    for other in (1, 17, 511):
        expected = naive.unifrac(samples, 0, other)
        assert targets[0, 2 + other].item() == pytest.approx(expected, rel=1e-5)


def test_batches_are_even_and_whole() -> None:
    for size in SIZES.values():
        for rows in (size.training_rows, size.evaluation_rows):
            assert rows % size.batch_size == 0
        assert size.batch_size % 2 == 0


def test_the_full_size_is_made_of_the_shapes_that_it_promises() -> None:
    tokens, targets = make_dataset(SIZES["full"], 8, seed=1).tensors
    assert tokens.shape == (8, 128, 150)
    assert targets.shape == (8, 10)
    assert tokens.dtype == torch.int64
    assert tokens.min() >= 1
