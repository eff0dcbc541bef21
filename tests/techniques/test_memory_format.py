"""Channels last: weights, their gradients, the optimizer's state and the images."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from hasten.records.plan import Plan
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.techniques.memory_format import MemoryFormatPart, MemoryFormatTechnique
from hasten.techniques.technique import CannotApply
from trainings import make_training

PLAN = Plan(parts={"memory_format": {}})
TECHNIQUE = MemoryFormatTechnique()


def is_last(tensor: Tensor | None) -> bool:
    assert tensor is not None
    return tensor.is_contiguous(memory_format=torch.channels_last)


def weights(pipeline: Pipeline) -> list[nn.Parameter]:
    return [m.weight for m in pipeline.model.modules() if isinstance(m, nn.Conv2d)]


def states(pipeline: Pipeline) -> list[Tensor]:
    optimizer = pipeline.optimizers[0]
    return [
        optimizer.state[each][key]
        for each in weights(pipeline)
        for key in ("exp_avg", "exp_avg_sq")
    ]


def steps(run: Run, count: int) -> None:
    for _, batch in zip(range(count), run.endless(), strict=False):
        run.step(batch)


def test_weights_gradients_state_and_images_are_channels_last() -> None:
    pipeline, seen = make_training("convolutions"), []
    pipeline.model.stem.register_forward_hook(lambda module, args, out: seen.append(args[0]))
    run = Run(pipeline, PLAN)
    steps(run, 2)
    assert run.applied[0].why == "5 convolutions channels-last"
    assert all(map(is_last, weights(pipeline)))
    assert all(is_last(each.grad) for each in weights(pipeline))
    assert all(map(is_last, states(pipeline)))
    assert all(map(is_last, seen))


def test_in_the_midst_of_a_training_the_state_moves_with_the_weights_and_back() -> None:
    pipeline = make_training("convolutions")
    steps(Run(pipeline), 2)
    numbers = [each.clone() for each in states(pipeline)]
    effect = TECHNIQUE.apply(pipeline, MemoryFormatPart())
    assert all(map(is_last, states(pipeline)))
    assert all(is_last(each.grad) for each in weights(pipeline))
    assert all(map(torch.equal, states(pipeline), numbers))
    steps(Run(pipeline), 1)
    effect.undo()
    every = [*weights(pipeline), *states(pipeline), *(each.grad for each in weights(pipeline))]
    assert all(each is not None and each.is_contiguous() for each in every)
    steps(Run(pipeline), 1)
    assert all(each.is_contiguous() for each in [*weights(pipeline), *states(pipeline)])


def test_a_weight_that_the_user_has_laid_out_stays_so() -> None:
    pipeline = make_training("convolutions")
    stem = pipeline.model.stem
    stem.weight.data = stem.weight.data.contiguous(memory_format=torch.channels_last)
    strides = [each.stride() for each in pipeline.model.parameters()]
    TECHNIQUE.apply(pipeline, MemoryFormatPart()).undo()
    assert [each.stride() for each in pipeline.model.parameters()] == strides


def test_a_model_that_is_channels_last_already_is_left_alone() -> None:
    pipeline = make_training("convolutions")
    pipeline.model.to(memory_format=torch.channels_last)
    with pytest.raises(CannotApply, match="the model is channels-last already"):
        TECHNIQUE.apply(pipeline, MemoryFormatPart())


def test_other_code_that_lays_the_weights_out_anew_is_noticed() -> None:
    pipeline = make_training("convolutions")
    effect = TECHNIQUE.apply(pipeline, MemoryFormatPart())
    assert effect.did_run() is None
    pipeline.model.to(memory_format=torch.contiguous_format)
    assert effect.did_run() == "other code has laid the weights out anew"
    effect.undo()


def test_only_images_are_laid_out_anew() -> None:
    pipeline = make_training("convolutions")
    effect = TECHNIQUE.apply(pipeline, MemoryFormatPart())
    batch = {"image": torch.randn(2, 3, 4, 4), "text": torch.ones(2, 5), "n": 3}
    moved = pipeline.transfer(batch, pipeline.device)
    assert is_last(moved["image"])
    assert torch.equal(moved["image"], batch["image"])
    assert moved["text"].stride() == (5, 1)
    assert moved["n"] == 3
    effect.undo()


def test_weights_of_other_layers_keep_their_layout() -> None:
    pipeline = make_training("convolutions")
    pipeline.model.table = nn.Parameter(torch.randn(2, 3, 4, 5))
    effect = TECHNIQUE.apply(pipeline, MemoryFormatPart())
    assert pipeline.model.table.is_contiguous()
    effect.undo()


def share_by_attribute(model: nn.Module) -> None:
    model.view = model.stem.weight.data


def share_by_buffer(model: nn.Module) -> None:
    model.register_buffer("view", model.stem.weight.detach()[0], persistent=False)


def share_by_parameter(model: nn.Module) -> None:
    model.twin = nn.Conv2d(3, 4, 3)
    model.twin.weight.data = model.stem.weight.data


def share_by_one_flat_tensor(model: nn.Module) -> None:
    flat = torch.randn(2, *model.stem.weight.shape)
    model.stem.weight.data = flat[0]


def share_with_processes(model: nn.Module) -> None:
    model.share_memory()


@pytest.mark.parametrize(
    "share",
    [
        share_by_attribute,
        share_by_buffer,
        share_by_parameter,
        share_by_one_flat_tensor,
        share_with_processes,
    ],
)
def test_weights_whose_memory_is_shared_are_refused(share: Callable[[nn.Module], None]) -> None:
    pipeline = make_training("convolutions")
    share(pipeline.model)
    places = [each.data_ptr() for each in pipeline.model.parameters()]
    with pytest.raises(CannotApply, match="other tensors share the memory of a weight"):
        TECHNIQUE.apply(pipeline, MemoryFormatPart())
    assert [each.data_ptr() for each in pipeline.model.parameters()] == places


def test_one_weight_in_two_convolutions_stays_one() -> None:
    pipeline = make_training("convolutions")
    pipeline.model.twin = nn.Conv2d(3, 4, 3)
    pipeline.model.twin.weight = pipeline.model.stem.weight
    effect = TECHNIQUE.apply(pipeline, MemoryFormatPart())
    assert pipeline.model.twin.weight is pipeline.model.stem.weight
    assert is_last(pipeline.model.twin.weight)
    effect.undo()
    assert pipeline.model.twin.weight.is_contiguous()
