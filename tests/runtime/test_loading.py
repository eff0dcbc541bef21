"""A loader of ours that fails, anywhere in an epoch, gives way to the user's own at that batch."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from hasten.data.loaders.batched import BatchedLoader
from hasten.records.plan import NAIVE, Plan
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from plain_loop import make_loader, make_model
from torch_state import model_bits, random_settings

PLAN = Plan(parts={"batched_loader": {}})


def train(plan: Plan, **options: Any) -> tuple[Run, list[float], Any]:
    torch.manual_seed(5)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    if options.pop("generator", False):
        options["generator"] = torch.Generator().manual_seed(8)
    loader = make_loader(**options)
    run = Run(Pipeline.from_loop(model, loader, optimizer, F.cross_entropy), plan)
    losses = [float(run.step(batch)) for _ in range(3) for batch in run.dataloader]
    held = loader.generator.get_state().tolist() if loader.generator else None
    return run, losses, (model_bits(model)["tensors"], random_settings(), held)


def breaking(monkeypatch: pytest.MonkeyPatch, epoch: int, after: int) -> None:
    """The batched loader raises in one epoch after some batches, or when it is begun."""
    begun, work = [0], BatchedLoader.__iter__

    def broken(source: Iterator[Any]) -> Iterator[Any]:
        for _ in range(after):
            yield next(source)
        raise RuntimeError("the gather failed")

    def begin(self: BatchedLoader) -> Iterator[Any]:
        begun[0] += 1
        if begun[0] == epoch and after < 0:
            raise RuntimeError("the gather failed")
        source = work(self)
        return broken(source) if begun[0] == epoch else source

    monkeypatch.setattr(BatchedLoader, "__iter__", begin)


@pytest.mark.parametrize("options", [{}, {"generator": True}, {"num_workers": 2}], ids=str)
@pytest.mark.parametrize(("epoch", "after"), [(1, -1), (1, 0), (1, 3), (2, 6), (3, -1)])
def test_the_epoch_goes_on_from_the_users_own_loader(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], epoch: int, after: int
) -> None:
    _, losses, end = train(NAIVE, **options)
    breaking(monkeypatch, epoch, after)
    run, found, found_end = train(PLAN, **options)
    assert [str(each) for each in run.applied] == [
        "batched_loader: fell back (RuntimeError: the gather failed)"
    ]
    assert found == losses
    assert found_end == end


def test_an_error_of_the_users_own_data_is_raised_as_itself() -> None:
    class Torn(torch.utils.data.TensorDataset):
        def __getitem__(self, index: int) -> Any:
            raise OSError("the file is torn")

    model = make_model()
    loader = torch.utils.data.DataLoader(Torn(torch.zeros(8, 6)), batch_size=4)
    optimizer = torch.optim.AdamW(model.parameters())
    run = Run(Pipeline.from_loop(model, loader, optimizer, F.cross_entropy), PLAN)
    with pytest.raises(OSError, match="the file is torn"):
        next(iter(run.dataloader))


def test_a_guarded_loader_looks_like_the_users_own() -> None:
    model, loader = make_model(), make_loader()
    optimizer = torch.optim.AdamW(model.parameters())
    run = Run(Pipeline.from_loop(model, loader, optimizer, F.cross_entropy), PLAN)
    guarded: Any = run.dataloader
    assert len(guarded) == len(loader)
    assert guarded.dataset is loader.dataset
    assert guarded.batch_size == loader.batch_size
    run.undo()
    assert run.dataloader is loader
