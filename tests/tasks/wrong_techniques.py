"""Techniques that change the training and say that they do not, and one that really does not."""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import hasten


class PlantedPart(hasten.Part, frozen=True):
    pass


class _Planted(hasten.Technique[PlantedPart]):
    part = PlantedPart
    stage = hasten.Stage.OPTIMIZER
    rung = hasten.Rung.ROUNDING
    answers = ("slow-optimizer",)
    about = "Planted by a test."

    def to_try(self, environment, traits) -> list[PlantedPart]:  # type: ignore[no-untyped-def]
        return [PlantedPart()]

    def apply(self, pipeline: hasten.Pipeline, part: PlantedPart) -> hasten.Effect:
        forward = pipeline.forward
        self.change(pipeline)

        def undo() -> None:
            pipeline.forward = forward

        return hasten.Effect(why="planted", undo=undo)

    def change(self, pipeline: hasten.Pipeline) -> None:
        raise AssertionError("each planted technique has its own")


class ScaledGradient(_Planted):
    """Every gradient is 1 % too large."""

    name = "scaled_gradient"

    def change(self, pipeline: hasten.Pipeline) -> None:
        for parameter in pipeline.model.parameters():
            parameter.register_hook(lambda gradient: gradient * 1.01)


class FrozenParameter(_Planted):
    """One bias no longer learns."""

    name = "frozen_parameter"

    def change(self, pipeline: hasten.Pipeline) -> None:
        list(pipeline.model.parameters())[1].requires_grad_(False)


class _HalvedBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        return value.clone()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        return gradient / 2


class WrongGradientEqualLoss(_Planted):
    """The loss is the same to the bit, the gradients behind the first layer are half."""

    name = "wrong_gradient_equal_loss"

    def change(self, pipeline: hasten.Pipeline) -> None:
        first = pipeline.model[0]  # type: ignore[index]
        first.register_forward_hook(lambda module, args, output: _HalvedBackward.apply(output))


class WrongLossEqualGradient(_Planted):
    """The gradients are the same to the bit, the loss that is told is twice as large."""

    name = "wrong_loss_equal_gradient"

    def change(self, pipeline: hasten.Pipeline) -> None:
        forward = pipeline.forward

        def telling_more(model: nn.Module, batch: list[Tensor]) -> Tensor:
            loss: Tensor = forward(model, batch)
            return loss + loss.detach()

        pipeline.forward = telling_more


class NoDropout(_Planted):
    """Dropout is switched off."""

    name = "no_dropout"

    def change(self, pipeline: hasten.Pipeline) -> None:
        for module in pipeline.model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0


class HiddenNoDropout(_Planted):
    """Dropout is switched off in the forward only, where no setting shows it."""

    name = "hidden_no_dropout"
    rung = hasten.Rung.BITWISE

    def change(self, pipeline: hasten.Pipeline) -> None:
        for module in pipeline.model.modules():
            if isinstance(module, nn.Dropout):
                module.forward = lambda rows: rows  # type: ignore[method-assign]


class OtherStatistics(_Planted):
    """BatchNorm's running statistics are written back after each step."""

    name = "other_statistics"

    def change(self, pipeline: hasten.Pipeline) -> None:
        kept = {name: buffer.clone() for name, buffer in pipeline.model.named_buffers()}

        def put_back(*args: object) -> None:
            for name, buffer in pipeline.model.named_buffers():
                buffer.copy_(kept[name])

        pipeline.optimizers[0].register_step_post_hook(put_back)


class DrawsRandom(_Planted):
    """Draws one random number in each step, so that all later shuffles are others."""

    name = "draws_random"
    rung = hasten.Rung.BITWISE

    def change(self, pipeline: hasten.Pipeline) -> None:
        forward = pipeline.forward

        def drawing(model: nn.Module, batch: object) -> Tensor:
            torch.rand(1)
            loss: Tensor = forward(model, batch)
            return loss

        pipeline.forward = drawing


class NotInTheProof(_Planted):
    """Refuses to be applied where it would be found out."""

    name = "not_in_the_proof"

    def change(self, pipeline: hasten.Pipeline) -> None:
        if torch.are_deterministic_algorithms_enabled():
            raise hasten.CannotApply("kernels are deterministic")
        ScaledGradient().change(pipeline)


class WrongFromTheSecondBatch(_Planted):
    """Right for the first whole batch, wrong from the second on."""

    name = "wrong_from_the_second_batch"

    def change(self, pipeline: hasten.Pipeline) -> None:
        forward, seen = pipeline.forward, []

        def wrong(model: nn.Module, batch: list[Tensor]) -> Tensor:
            loss: Tensor = forward(model, batch)
            if len(batch[0]) < 32:
                return loss
            seen.append(loss)
            return loss if len(seen) == 1 else loss * 3

        pipeline.forward = wrong


class SkipsUpdates(_Planted):
    """Every fourth update is left out."""

    name = "skips_updates"

    def change(self, pipeline: hasten.Pipeline) -> None:
        optimizer, count = pipeline.optimizers[0], [0]
        step = optimizer.step

        def skipping() -> None:
            count[0] += 1
            if count[0] % 4:
                step()

        optimizer.step = skipping  # type: ignore[method-assign, assignment]


class NarrowGradient(_Planted):
    """Rounds every gradient to fp32, whatever the model is in."""

    name = "narrow_gradient"

    def change(self, pipeline: hasten.Pipeline) -> None:
        for parameter in pipeline.model.parameters():
            parameter.register_hook(lambda gradient: gradient.float().to(gradient.dtype))


class MovedStart(_Planted):
    """One bit of one weight is flipped before the first step."""

    name = "moved_start"

    def change(self, pipeline: hasten.Pipeline) -> None:
        with torch.no_grad():
            weights = next(pipeline.model.parameters()).view(torch.int32)
            weights.view(-1)[0] ^= 1


class OtherOrder(_Planted):
    """The same rows, in the order of the next seed."""

    name = "other_order"
    rung = hasten.Rung.BITWISE
    stage = hasten.Stage.DATA
    answers = ("data-wait",)

    def change(self, pipeline: hasten.Pipeline) -> None:
        loader = pipeline.loader
        assert isinstance(loader, DataLoader)
        generator = torch.Generator().manual_seed(99)
        pipeline.loader = DataLoader(
            loader.dataset, batch_size=loader.batch_size, shuffle=True, generator=generator
        )


class Harmless(_Planted):
    """Changes nothing at all."""

    name = "harmless"
    rung = hasten.Rung.BITWISE

    def change(self, pipeline: hasten.Pipeline) -> None:
        return None


for technique in (
    ScaledGradient,
    FrozenParameter,
    WrongGradientEqualLoss,
    WrongLossEqualGradient,
    NoDropout,
    HiddenNoDropout,
    OtherStatistics,
    DrawsRandom,
    NotInTheProof,
    WrongFromTheSecondBatch,
    SkipsUpdates,
    NarrowGradient,
    MovedStart,
    OtherOrder,
    Harmless,
):
    hasten.register_technique(technique)
