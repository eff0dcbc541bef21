"""Worker processes load what the loader would have, in its order."""

import random
from typing import Any

import pytest
import torch
from msgspec.structs import replace
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, TensorDataset

from hasten.data.ahead.workers import WorkersLoader, rebuild
from hasten.host.cores import cores_allowed
from hasten.host.environment import read_environment
from hasten.records.plan import Plan
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.traits import read_traits
from hasten.techniques.loader_workers import LoaderWorkersTechnique
from torch_state import random_settings
from trainings import make_training


class Items(Dataset[Any]):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.full((6,), float(index)), index % 3


class RandomItems(Items):
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.randn(6), index % 3


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([(torch.ones(6), 0)] * 4)


def with_loader(loader: Any) -> Pipeline:
    pipeline = make_training("perceptron")
    pipeline.loader = loader
    return pipeline


def workers(count: int = 1) -> Plan:
    return Plan(parts={"loader_workers": {"workers": count}})


def epochs(pipeline: Pipeline, plan: Plan) -> list[Any]:
    torch.manual_seed(3)
    random.seed(3)
    run = Run(pipeline, plan)
    seen: list[Any] = []
    for _ in range(2):
        seen += [[each.tolist() for each in batch] for batch in run.epoch()]
        seen.append(random_settings())
    return seen


def test_the_batches_and_the_random_numbers_are_the_same() -> None:
    def make() -> Pipeline:
        return with_loader(DataLoader(Items(), batch_size=4, shuffle=True))

    pipeline = make()
    assert epochs(pipeline, workers()) == epochs(make(), Plan())
    assert pipeline.loader.num_workers == 1  # type: ignore[attr-defined]


def test_what_the_loader_was_told_is_told_to_the_new_one() -> None:
    started: list[int] = []
    generator = torch.Generator()
    loader = DataLoader(
        Items(),
        batch_size=4,
        worker_init_fn=started.append,
        generator=generator,
        timeout=9,
        num_workers=1,
    )
    pipeline = with_loader(loader)
    (said,) = Run(pipeline, workers()).applied
    assert said.why == "1 workers, 1 before"
    now = pipeline.loader
    assert isinstance(now, WorkersLoader)
    assert now.order.loader is loader
    rebuilt = rebuild(loader, now.settings, generator=torch.Generator())
    assert rebuilt.timeout == 9
    assert rebuilt.worker_init_fn is not None
    rebuilt.worker_init_fn(5)
    assert started == [5]
    assert rebuilt.collate_fn([1, 2]).tolist() == [1, 2]


TOO_MANY = int(cores_allowed()) + 1
REFUSED: dict[str, tuple[Any, int, str]] = {
    "a list": ([], 1, "it is a list, not a plain DataLoader"),
    "too many": (
        DataLoader(Items()),
        TOO_MANY,
        f"num_workers={TOO_MANY} is more than the {cores_allowed():g} cores that this process may "
        "use; ask for fewer, or for none",
    ),
    "a stream": (
        DataLoader(Stream()),
        1,
        "its dataset is iterable, and each worker would go through all of it",
    ),
    "rows": (DataLoader(Items(), batch_size=None), 1, "it makes no batches"),
    "random items": (
        DataLoader(RandomItems()),
        1,
        "its items draw random numbers, which would be others in workers",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_rebuilt_is_left_alone(case: str) -> None:
    loader, count, reason = REFUSED[case]
    pipeline = with_loader(loader)
    (said,) = Run(pipeline, workers(count)).applied
    assert (said.outcome, said.why) == ("skipped", reason)
    assert pipeline.loader is loader


def test_the_traits_tell_where_workers_help() -> None:
    technique = LoaderWorkersTechnique()
    own = DataLoader(Items(), batch_sampler=BatchSampler(range(10), 2, False))
    reasons = [
        technique.unsuited(read_traits(with_loader(loader)))
        for loader in (
            own,
            DataLoader(TensorDataset(torch.ones(4))),
            DataLoader(Stream()),
            [],
            DataLoader(RandomItems()),
        )
    ]
    other = "the loader is not a DataLoader of indexed data"
    assert reasons == [
        None,
        "the data is in memory, and workers would only copy it",
        other,
        other,
        "its items draw random numbers, which would be others in workers",
    ]


def test_as_many_as_there_are_cores_are_tried_first_and_then_fewer() -> None:
    traits = read_traits(with_loader(DataLoader(Items())))
    for cores, counts in ((0.5, [1]), (2.0, [2, 1]), (16.0, [16, 8, 4])):
        environment = replace(read_environment(), cores_allowed=cores)
        tries = LoaderWorkersTechnique().to_try(environment, traits)
        assert [each.workers for each in tries] == counts


class RandomLate(Items):
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.randn(6) if index == 7 else torch.full((6,), float(index)), index % 3


def test_an_item_that_turns_out_random_is_drawn_as_ever_and_the_workers_are_dropped() -> None:
    def train(plan: Plan) -> tuple[list[Any], Run]:
        torch.manual_seed(3)
        run = Run(with_loader(DataLoader(RandomLate(), batch_size=2, shuffle=True)), plan)
        losses = [float(run.step(batch)) for _ in range(2) for batch in run.epoch()]
        return [losses, random_settings()], run

    found, run = train(workers())
    assert found == train(Plan())[0]
    (said,) = run.applied
    assert said.outcome == "fell_back"
    assert "draw random numbers" in said.why
