"""Weights drawn anew: by the scheme, the same each time, and without moving any other draw."""

import gc
import weakref

import pytest
import torch
from torch import nn

from hasten.records.plan import Plan
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.techniques.technique import CannotApply
from hasten.techniques.weight_initialization import (
    SCHEMES,
    WeightInitializationPart,
    WeightInitializationTechnique,
)
from torch_state import model_bits, random_settings
from trainings import make_training

TECHNIQUE = WeightInitializationTechnique()


def part_of(scheme: str) -> WeightInitializationPart:
    return WeightInitializationPart(scheme=scheme)  # type: ignore[arg-type]


@pytest.mark.parametrize("training", ["perceptron", "convolutions"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_scheme_is_torchs_own_in_the_order_of_the_modules(scheme: str, training: str) -> None:
    pipeline = make_training(training)
    twin = make_training(training).model
    torch.manual_seed(5)
    before = random_settings()
    effect = TECHNIQUE.apply(pipeline, part_of(scheme))
    assert random_settings() == before
    generator = torch.Generator().manual_seed(5)
    layers = [m for m in twin.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    with torch.no_grad():
        for layer in layers:
            SCHEMES[scheme](layer.weight, generator=generator)
            if layer.bias is not None:
                layer.bias.zero_()
    assert model_bits(pipeline.model)["state"] == model_bits(twin)["state"]
    assert effect.words() == f"{len(layers)} layers drawn anew, {scheme}"


def test_other_layers_keep_their_weights() -> None:
    pipeline = make_training("recurrent")
    before = {name: each.clone() for name, each in pipeline.model.named_parameters()}
    TECHNIQUE.apply(pipeline, part_of("orthogonal"))
    after = dict(pipeline.model.named_parameters())
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {"head.weight", "head.bias"}


def test_applied_again_it_draws_the_same() -> None:
    pipeline = make_training("perceptron")
    effect = TECHNIQUE.apply(pipeline, part_of("kaiming_normal"))
    first = model_bits(pipeline.model)
    effect.undo()
    torch.rand(3)
    assert model_bits(pipeline.model) != first
    TECHNIQUE.apply(pipeline, part_of("kaiming_normal"))
    assert model_bits(pipeline.model) == first


def test_a_training_that_has_begun_keeps_its_weights() -> None:
    pipeline = make_training("perceptron")
    run = Run(pipeline, Plan(parts={"weight_initialization": {}}))
    assert run.applied[0].outcome == "done"
    run.step(next(iter(run.dataloader)))
    trained = model_bits(pipeline.model)
    with pytest.raises(CannotApply, match="the training has begun, and its weights would be lost"):
        TECHNIQUE.apply(pipeline, part_of("orthogonal"))
    run.undo()
    assert model_bits(pipeline.model) == trained


def make_plain_sgd() -> Pipeline:
    """Its optimizer keeps no state, which would tell that the training has begun."""
    pipeline = make_training("perceptron")
    pipeline.optimizers = [torch.optim.SGD(pipeline.model.parameters(), lr=0.1)]
    return pipeline


def test_undo_leaves_trained_weights_where_the_optimizer_keeps_no_state() -> None:
    pipeline = make_plain_sgd()
    run = Run(pipeline, Plan(parts={"weight_initialization": {}}))
    run.step(next(iter(run.dataloader)))
    assert not pipeline.optimizers[0].state
    trained = model_bits(pipeline.model)
    run.undo()
    assert model_bits(pipeline.model) == trained


def test_applied_again_in_the_midst_of_a_training_it_draws_nothing() -> None:
    """As where a technique that was applied before it is dropped."""
    pipeline = make_plain_sgd()
    effect = TECHNIQUE.apply(pipeline, part_of("kaiming_normal"))
    run = Run(pipeline)
    run.step(next(iter(run.dataloader)))
    trained = model_bits(pipeline.model)
    for _ in range(2):
        effect.undo()
        effect = TECHNIQUE.apply(pipeline, part_of("kaiming_normal"))
        assert effect.words() == "3 layers drawn anew, kaiming_normal"
        assert model_bits(pipeline.model) == trained
    with pytest.raises(CannotApply, match="the training has begun"):
        TECHNIQUE.apply(pipeline, part_of("orthogonal"))


def test_a_frozen_layer_is_not_put_back_under_trained_ones() -> None:
    pipeline = make_plain_sgd()
    pipeline.model.layers.requires_grad_(False)
    run = Run(pipeline, Plan(parts={"weight_initialization": {}}))
    run.step(next(iter(run.dataloader)))
    trained = model_bits(pipeline.model)
    run.undo()
    assert model_bits(pipeline.model) == trained


def test_a_model_that_is_gone_is_not_kept() -> None:
    pipeline = make_plain_sgd()
    TECHNIQUE.apply(pipeline, part_of("orthogonal"))
    model = weakref.ref(pipeline.model)
    del pipeline
    gc.collect()
    assert model() is None


def test_a_model_without_such_layers_is_left_alone() -> None:
    pipeline = make_training("perceptron")
    pipeline.model = nn.LayerNorm(6)
    with pytest.raises(CannotApply, match="the model has no linear or convolution layer"):
        TECHNIQUE.apply(pipeline, part_of("orthogonal"))


def test_weights_that_are_shared_are_put_back_as_they_were() -> None:
    pipeline = make_training("language")
    before = model_bits(pipeline.model)
    TECHNIQUE.apply(pipeline, part_of("xavier_uniform")).undo()
    assert model_bits(pipeline.model) == before
