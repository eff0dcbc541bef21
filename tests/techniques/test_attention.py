"""Which kernel ran is seen, and said; masks are simplified only where the model holds them."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

from arms import first_difference, trace
from hasten.host.environment import read_environment
from hasten.records.plan import Plan
from hasten.runtime.run import Run
from hasten.task.traits import read_traits
from hasten.techniques.attention import AttentionPart, AttentionTechnique
from trainings import make_training

PLAN = Plan(parts={"attention": {"masks": "simplify"}})


def train(run: Run, epochs: int = 1) -> None:
    for _ in range(epochs):
        for batch in run.epoch():
            run.step(batch)


def test_the_kernel_that_ran_and_the_masks_are_reported() -> None:
    run = Run(make_training("transformer"), PLAN)
    assert run.applied[0].why == "kernels: not seen yet, 0 masks simplified"
    train(run)
    assert [str(each) for each in run.applied] == [
        "attention: done (kernels: flash, 2 masks simplified)"
    ]
    assert run.model.blocks[0].seen.dtype == torch.bool  # the model's own mask is left alone


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "make",
    [lambda: profile(activities=[ProfilerActivity.CPU]), torch.autograd.profiler.profile],
    ids=["torch.profiler", "torch.autograd.profiler"],
)
def test_a_profiler_of_the_users_own_is_not_disturbed(make: Any) -> None:
    run = Run(make_training("transformer"), PLAN)
    with make() as theirs:
        train(run)
    assert any("scaled_dot_product" in event.key for event in theirs.key_averages())
    assert [str(each) for each in run.applied] == [
        "attention: done (kernels: not seen yet, 2 masks simplified)"
    ]
    train(run)
    assert run.applied[0].why == "kernels: flash, 2 masks simplified"


def test_masks_are_kept_unless_it_is_asked_for() -> None:
    run = Run(make_training("transformer"), Plan(parts={"attention": {}}))
    train(run)
    assert run.applied[0].why == "kernels: flash"


def test_a_model_without_attention_is_left_alone_from_the_second_step_on() -> None:
    plain = trace(make_training("perceptron"), Plan(), "whole")
    changed = trace(make_training("perceptron"), PLAN, "whole")
    assert changed.run is not None
    assert [str(each) for each in changed.run.applied] == [
        "attention: fell back (the model calls no scaled_dot_product_attention)"
    ]
    assert changed.run.effects == []
    assert first_difference(plain, changed) == ""


def test_where_torch_has_no_fused_kernel_it_says_so() -> None:
    pipeline = make_training("transformer")
    plain = pipeline.forward

    def forward(model: nn.Module, batch: Any) -> Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            return plain(model, batch)

    pipeline.forward = forward
    run = Run(pipeline, PLAN)
    train(run)
    assert [str(each) for each in run.applied] == [
        "attention: fell back (torch found no fused kernel for these inputs and ran its plain "
        "mathematics)"
    ]
    assert pipeline.forward is forward


@pytest.mark.parametrize("regions", ["whole", "blocks"])
def test_it_composes_with_compiling(regions: str) -> None:
    """Masks of compiled models are kept as they are; the kernel is seen all the same."""
    torch._dynamo.reset()
    parts = {**PLAN.parts, "compile": {"backend": "aot_eager", "regions": regions}}
    run = Run(make_training("transformer"), Plan(parts=parts))
    for _, batch in zip(range(3), run.epoch(), strict=False):  # the partial one would run eagerly
        run.step(batch)
    torch._dynamo.reset()
    said = {each.technique: str(each) for each in run.applied}
    assert said["attention"] == "attention: done (kernels: flash, 0 masks simplified)"
    assert "compile: done" in said["compile"]


@pytest.mark.parametrize("kernel", ["efficient", "cudnn"])
def test_a_kernel_of_another_device_is_refused(kernel: str) -> None:
    run = Run(make_training("transformer"), Plan(parts={"attention": {"kernel": kernel}}))
    (said,) = run.applied
    assert (said.outcome, said.why) == ("skipped", f"the {kernel} kernel is for CUDA devices")


def test_torchs_function_is_its_own_outside_of_the_forward_pass() -> None:
    original, seen = F.scaled_dot_product_attention, []
    pipeline = make_training("transformer")
    plain = pipeline.forward

    def forward(model: nn.Module, batch: Any) -> Tensor:
        seen.append(F.scaled_dot_product_attention)
        return plain(model, batch)

    pipeline.forward = forward
    run = Run(pipeline, PLAN)
    train(run)
    assert F.scaled_dot_product_attention is original
    assert all(each is not original for each in seen)


def test_an_error_in_the_forward_pass_leaves_torchs_function_its_own() -> None:
    original = F.scaled_dot_product_attention
    pipeline = make_training("transformer")

    def forward(model: nn.Module, batch: Any) -> Tensor:
        raise RuntimeError("of the user's own")

    pipeline.forward = forward
    run = Run(pipeline, PLAN)
    with pytest.raises(RuntimeError, match="of the user's own"):
        run.step(next(iter(run.dataloader)))
    assert F.scaled_dot_product_attention is original


class HandWritten(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Linear(6, 12)
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        query, key, value = self.into(inputs).chunk(3, -1)
        met = (query @ key.transpose(-2, -1)).softmax(-1) @ value
        return self.head(met.mean(1))


def test_the_traits_tell_it_what_to_expect() -> None:
    technique = AttentionTechnique()
    reasons = []
    for training, model in (
        ("transformer", None),
        ("perceptron", None),
        ("transformer", HandWritten()),
    ):
        pipeline = make_training(training)
        pipeline.model = model or pipeline.model
        reasons.append(technique.unsuited(read_traits(pipeline, next(iter(pipeline.loader)))))
    assert reasons == [
        None,
        "the model has no attention that is known",
        "its attention is written by hand; call scaled_dot_product_attention instead",
    ]


class Fused(HandWritten):
    """The same by torch, with a mask that the model holds, or none."""

    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.register_buffer("seen", torch.ones(1, 1, dtype=torch.bool) if masked else None)

    def forward(self, inputs: Tensor) -> Tensor:
        query, key, value = self.into(inputs).chunk(3, -1)
        return self.head(F.scaled_dot_product_attention(query, key, value, self.seen).mean(1))


def test_where_nobody_saw_whether_it_is_given_a_mask_it_may_be() -> None:
    traits = read_traits(make_training("transformer"))
    assert traits.model.masks_attention is None
    tried = AttentionTechnique().to_try(read_environment(), traits)
    assert tried == [AttentionPart(masks="simplify")]


@pytest.mark.parametrize("masked", [True, False])
def test_it_is_worth_a_trial_only_where_a_mask_could_be_simplified(masked: bool) -> None:
    pipeline = make_training("transformer")
    pipeline.model = Fused(masked)
    traits = read_traits(pipeline, next(iter(pipeline.loader)))
    assert traits.model.attention == ("fused",)
    assert traits.model.masks_attention is masked
    tried = AttentionTechnique().to_try(read_environment(), traits)
    assert tried == ([AttentionPart(masks="simplify")] if masked else [])
