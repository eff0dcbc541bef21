"""The plain step against a loop that is written by hand."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hasten.step.eager import EagerStep
from hasten.task.pipeline import Pipeline
from plain_loop import make_loader, make_model, train_plainly
from torch_state import model_bits, optimizer_bits
from trainings import CLIP, NAMES, WIDTH, make_training


def make_pair() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = make_model()
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def test_it_is_the_loop_of_the_books() -> None:
    model, optimizer = make_pair()
    torch.manual_seed(1)
    expected = train_plainly(model, make_loader(), optimizer, epochs=2, clip_norm=0.5)
    twin, other = make_pair()
    pipeline = Pipeline.from_loop(twin, make_loader(), other, F.cross_entropy, clip_norm=0.5)
    step = EagerStep(pipeline)
    torch.manual_seed(1)
    losses = [float(step(batch)) for _ in range(2) for batch in pipeline.loader]
    assert losses == expected
    assert model_bits(twin)["state"] == model_bits(model)["state"]
    assert optimizer_bits(other) == optimizer_bits(optimizer)


def test_with_a_scaler_it_is_the_loop_of_the_books_too() -> None:
    """Unscale, clip, step, update: one scaler, and one overflow on the way."""
    model, optimizer = make_pair()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**126, growth_interval=3)
    torch.manual_seed(1)
    expected = []
    for inputs, target in make_loader():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), target)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        expected.append(loss.item())
    twin, other = make_pair()
    pipeline = Pipeline.from_loop(twin, make_loader(), other, F.cross_entropy, clip_norm=0.5)
    pipeline.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**126, growth_interval=3)
    step = EagerStep(pipeline)
    torch.manual_seed(1)
    assert [float(step(batch)) for batch in pipeline.loader] == expected
    assert pipeline.scaler.state_dict() == scaler.state_dict()
    assert model_bits(twin)["state"] == model_bits(model)["state"]


def test_it_tells_before_anything_is_changed_and_when_weights_may_be() -> None:
    pipeline = make_training("perceptron")
    seen: list[tuple[str, bool]] = []
    step = EagerStep(pipeline)
    step.before = lambda: seen.append(("before", step.updating))
    forward = pipeline.forward

    def watched(model: nn.Module, batch: Any) -> Tensor:
        seen.append(("forward", step.updating))
        return forward(model, batch)

    pipeline.forward = watched
    pipeline.optimizers[0].register_step_pre_hook(
        lambda *args: seen.append(("update", step.updating))
    )
    step(next(iter(pipeline.loader)))
    assert seen == [("before", False), ("forward", False), ("update", True)]


@pytest.mark.parametrize("training", NAMES)
def test_the_norm_is_that_of_before_the_clip(training: str) -> None:
    pipeline = make_training(training)
    step = EagerStep(pipeline)
    loss = step(next(iter(pipeline.loader)))
    assert step.loss is not None
    assert float(step.loss) == float(loss)
    assert step.gradient_norm is not None
    clipped = torch.stack([each.grad.norm() for each in pipeline.model.parameters()]).norm()
    assert float(step.gradient_norm) > float(clipped)
    assert float(clipped) == pytest.approx(CLIP, rel=1e-3)


def test_several_optimizers_step_once_each() -> None:
    pipeline = make_training("perceptron")
    first, *rest = pipeline.model.parameters()
    pipeline.optimizers = [torch.optim.SGD([first], lr=0.1), torch.optim.AdamW(rest, lr=0.1)]
    before = [each.detach().clone() for each in (first, *rest)]
    EagerStep(pipeline)(next(iter(pipeline.loader)))
    assert all(
        not torch.equal(one, other) for one, other in zip(before, (first, *rest), strict=True)
    )
    assert torch.allclose(before[0] - 0.1 * first.grad, first)


def test_carried_state_goes_on_without_its_gradients_and_begins_anew() -> None:
    pipeline = make_training("recurrent")
    pipeline.state_resets = "epoch"
    zeros = torch.zeros(2, 6, WIDTH)
    pipeline.initial_state = lambda: (zeros, zeros)
    given: list[Any] = []
    forward = pipeline.forward

    def watched(model: nn.Module, batch: Any, state: Any) -> Any:
        given.append(state)
        return forward(model, batch, state)

    pipeline.forward = watched
    step = EagerStep(pipeline)
    batch = next(iter(pipeline.loader))
    step(batch), step(batch)
    step.start_epoch()
    step(batch)
    assert not given[0][0].any()
    assert given[1][0].any()
    assert not given[1][0].requires_grad
    assert not given[2][0].any()
