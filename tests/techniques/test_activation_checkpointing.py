"""Less is kept, the same is computed, and nothing happens twice that must happen once."""

import copy
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional as F
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset

from arms import first_difference, trace
from hasten.records.plan import Plan
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from trainings import Block, make_training

KEEPS = ["nothing", "products"]
keeping = pytest.mark.parametrize("keep", KEEPS)


def checkpointing(keep: str = "nothing") -> Plan:
    return Plan(parts={"activation_checkpointing": {"keep": keep}})


def saved_bytes(run: Run, batch: Any) -> int:
    """Of all tensors that a forward pass keeps for its backward pass, each storage once."""
    kept: dict[int, int] = {}
    alive: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        alive.append(tensor)  # so that no address is used twice
        return tensor

    weights = {p.untyped_storage().data_ptr() for p in run.model.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = run.forward(batch)
    run.backward(loss)
    return sum(size for place, size in kept.items() if place not in weights)


class Deep(nn.Module):
    def __init__(self, blocks: int = 6) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 16))
            for _ in range(blocks)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        for block in self.blocks:
            inputs = inputs + block(inputs)
        return inputs


def make_deep() -> Pipeline:
    torch.manual_seed(0)
    model = Deep()
    loader = DataLoader(TensorDataset(torch.randn(64, 16), torch.randn(64, 16)), batch_size=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Pipeline.from_loop(model, loader, optimizer, F.mse_loss)


def kept_outside_of_blocks(plan: Plan) -> int:
    run = Run(make_deep(), plan)
    return saved_bytes(run, next(iter(run.dataloader)))


def test_less_is_kept_for_the_backward_pass() -> None:
    """By hand: the inputs of 6 blocks of 16 x 16 floats are 6 KiB; the plain run has 6 inner
    layers of 32 besides, twice, and the masks of dropout."""
    plain, nothing = kept_outside_of_blocks(Plan()), kept_outside_of_blocks(checkpointing())
    assert nothing < plain / 3
    assert nothing <= 2 * 6 * 16 * 16 * 4


class Storages(TorchDispatchMode):
    """Every storage that an operation has made, and whether it is still alive."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        output = function(*args, **(kwargs or {}))
        for tensor in pytree.tree_leaves(output):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                self._made[storage.data_ptr()] = StorageWeakRef(storage), storage.nbytes()
        return output

    def bytes_alive(self) -> int:
        return sum(size for storage, size in self._made.values() if not storage.expired())


def bytes_after_forward(plan: Plan) -> int:
    run = Run(make_deep(), plan)
    batch = next(iter(run.dataloader))
    with Storages() as storages:
        loss = run.forward(batch)
    alive = storages.bytes_alive()
    run.backward(loss)
    return alive


def test_products_that_are_kept_lie_between_nothing_and_all() -> None:
    plain, products, nothing = (
        bytes_after_forward(plan) for plan in (Plan(), checkpointing("products"), checkpointing())
    )
    assert nothing < products < plain


@keeping
def test_dropout_draws_the_same_in_the_second_computation(keep: str) -> None:
    plain, changed = (
        trace(make_deep(), Plan(), "whole"),
        trace(make_deep(), checkpointing(keep), "whole"),
    )
    assert changed.run is not None
    assert [each.outcome for each in changed.run.applied] == ["done"]
    assert first_difference(plain, changed) == ""


@keeping
@pytest.mark.parametrize("regions", ["whole", "blocks"])
def test_it_composes_with_compiling(keep: str, regions: str) -> None:
    parts = {
        "activation_checkpointing": {"keep": keep},
        "compile": {"backend": "aot_eager", "regions": regions},
    }
    torch._dynamo.reset()
    plain = trace(make_training("transformer", dropout=False), Plan(), "whole")
    changed = trace(make_training("transformer", dropout=False), Plan(parts=parts), "whole")
    torch._dynamo.reset()
    assert changed.run is not None
    assert [each.outcome for each in changed.run.applied] == ["done", "done"]
    assert changed.losses == pytest.approx(plain.losses, rel=1e-5)


@keeping
def test_batchnorm_sees_each_batch_once(keep: str) -> None:
    run = Run(make_training("convolutions"), checkpointing(keep))
    for batch in run.epoch():
        run.step(batch)
    counts = [int(buffer) for name, buffer in run.model.named_buffers() if "num_batches" in name]
    assert counts == [4, 4, 4, 4]


@keeping
def test_batchnorm_under_compile_sees_each_batch_once(keep: str) -> None:
    parts = {**checkpointing(keep).parts, "compile": {"backend": "aot_eager"}}
    torch._dynamo.reset()
    run = Run(make_training("convolutions"), Plan(parts=parts))
    for batch in run.epoch():
        run.step(batch)
    torch._dynamo.reset()
    assert {each.technique for each in run.applied if each.outcome == "done"} == set(parts)
    counts = [int(buffer) for name, buffer in run.model.named_buffers() if "num_batches" in name]
    assert counts == [4, 4, 4, 4]


class Counting(nn.Module):
    """Writes to a buffer of its own in the forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)
        self.register_buffer("average", torch.zeros(16))

    def forward(self, inputs: Tensor) -> Tensor:
        self.average.lerp_(inputs.detach().mean(0), 0.1)
        return self.layer(inputs - self.average)


def make_counting() -> Pipeline:
    pipeline = make_deep()
    torch.manual_seed(1)
    model = nn.Sequential(Counting(), Counting())
    pipeline.model = model
    pipeline.optimizers = [torch.optim.SGD(model.parameters(), lr=0.1)]
    return pipeline


@keeping
def test_a_block_that_writes_to_its_buffers_is_refused_and_trains_as_without(keep: str) -> None:
    plain = trace(make_counting(), Plan(), "whole")
    changed = trace(make_counting(), checkpointing(keep), "whole")
    assert changed.run is not None
    (said,) = changed.run.applied
    assert said.outcome == "fell_back"
    assert said.why == ("CannotApply: the block writes to Counting.average, and would do so twice")
    assert first_difference(plain, changed) == ""


class Moving(nn.Module):
    """Moves something else than buffers in the forward pass."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)
        self.what = what
        self.calls = 0
        self.kept: list[int] = []
        self.written = torch.ones(())
        self.replaced = torch.ones(())
        self.register_buffer("made_anew", torch.ones(()))

    def forward(self, inputs: Tensor) -> Tensor:
        share: Any = 1.0
        if self.what == "calls":
            self.calls += 1
            share = 1 / self.calls
        elif self.what == "kept":
            self.kept.append(1)
            share = 1 / len(self.kept)
        elif self.what == "written":
            share = 1 / self.written.add_(1).item()
        elif self.what == "replaced":
            self.replaced = self.replaced + 1
            share = 1 / self.replaced
        elif self.what == "made_anew":
            self.made_anew = self.made_anew + 1
            share = 1 / self.made_anew
        elif self.what == "python":
            share = random.random()
        elif self.what == "numpy":
            share = float(np.random.rand())
        return inputs + share * self.layer(inputs).tanh()


def make_moving(what: str) -> Pipeline:
    pipeline = make_counting()
    torch.manual_seed(1), random.seed(2), np.random.seed(3)
    pipeline.model = nn.Sequential(Moving(what), Moving(what))
    pipeline.optimizers = [torch.optim.SGD(pipeline.model.parameters(), lr=0.1)]
    return pipeline


@pytest.mark.parametrize(
    "what", ["calls", "kept", "written", "replaced", "made_anew", "python", "numpy"]
)
def test_a_block_that_moves_anything_else_is_refused(what: str) -> None:
    (said,) = _step_once(make_moving(what)).applied
    assert said.outcome == "fell_back"
    drawn = "draws random numbers of Python or NumPy"
    written = f"writes to Moving.{what}"
    assert f"the block {drawn if what in ('python', 'numpy') else written}" in said.why


@pytest.mark.parametrize("what", ["calls", "python", "numpy"])
def test_a_block_that_moves_anything_else_trains_as_without(what: str) -> None:
    plain = trace(make_moving(what), Plan(), "whole")
    assert first_difference(plain, trace(make_moving(what), checkpointing(), "whole")) == ""


def _step_once(pipeline: Pipeline) -> Run:
    run = Run(pipeline, checkpointing())
    run.step(next(iter(run.dataloader)))
    return run


def test_a_block_is_watched_in_training_even_if_it_was_called_before() -> None:
    pipeline = make_moving("none")
    run = Run(pipeline, checkpointing())
    pipeline.model.eval()
    run.forward(next(iter(run.dataloader)))
    pipeline.model.train()
    for block in pipeline.model:
        block.what = "calls"
    run.step(next(iter(run.dataloader)))
    assert [each.outcome for each in run.applied] == ["fell_back"]


@keeping
@pytest.mark.parametrize("attention", [{"masks": "simplify"}, {"kernel": "flash"}])
def test_attention_is_computed_again_as_it_was_before(keep: str, attention: dict[str, str]) -> None:
    """The second computation is outside of the forward pass, where masks would be kept again."""
    calls: list[bool] = []
    original = F.scaled_dot_product_attention

    def spy(*args: Tensor, **more: Any) -> Tensor:
        calls.append(more.get("is_causal", False))
        return original(*args, **more)

    parts = {**checkpointing(keep).parts, "attention": attention}
    run = Run(make_training("transformer"), Plan(parts=parts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hasten.step.masks.scaled_dot_product_attention", spy)
        for batch in run.epoch():
            run.step(batch)
    assert [each.outcome for each in run.applied] == ["done", "done"]
    if "masks" in attention:
        assert len(calls) == 4 * 2 * 2  # steps, blocks, computations
        assert all(calls)


def test_evaluation_computes_once() -> None:
    run = Run(make_training("transformer"), checkpointing())
    with torch.no_grad():
        run.forward(next(iter(run.dataloader)))
    (live,) = run.effects
    assert live.effect.did_run() == "2 of 2 blocks were not called"


def test_a_copy_of_the_model_trains_its_own_weights() -> None:
    run = Run(make_training("transformer"), checkpointing())
    twin = copy.deepcopy(run.model)
    batch = next(iter(run.dataloader))
    run.pipeline.forward(twin, batch).backward()
    assert all(parameter.grad is None for parameter in run.model.parameters())
    assert all(parameter.grad is not None for parameter in twin.blocks.parameters())


def test_a_copy_of_the_model_computes_once_after_undo() -> None:
    run = Run(make_deep(), checkpointing())
    twin, inputs = copy.deepcopy(run.model), torch.randn(4, 16)
    calls: list[int] = []
    for block in twin.blocks:
        block[0].register_forward_hook(lambda *_: calls.append(1))
    twin(inputs).sum().backward()
    assert len(calls) == 2 * 6
    run.undo()
    calls.clear()
    twin(inputs).sum().backward()
    assert len(calls) == 6


def test_blocks_whose_forward_is_not_their_own_are_left_alone() -> None:
    pipeline = make_training("transformer")
    block = pipeline.model.blocks[0]
    assert isinstance(block, Block)
    block.forward = block.forward
    (said,) = Run(pipeline, checkpointing()).applied
    assert (said.outcome, said.why) == (
        "skipped",
        "other code has replaced the forward of a block",
    )
