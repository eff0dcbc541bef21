"""What is read of a model, its data, its loss and its optimizer, without disturbing them."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    Sampler,
    TensorDataset,
)

from hasten.records.traits import DataTraits, Traits
from hasten.task.pipeline import Pipeline
from hasten.task.traits import can_fuse, read_traits
from plain_loop import make_loader, make_model
from torch_state import model_bits, optimizer_bits, random_settings

Loss = Callable[[Any, Any], Tensor]
MODEL = nn.Linear(6, 3)
INPUTS = torch.linspace(-1, 1, 72).reshape(12, 6)


def make_pipeline(trained: nn.Module, **changes: Any) -> Pipeline:
    given: dict[str, Any] = {
        "model": trained,
        "loader": make_loader(),
        "optimizers": [torch.optim.Adam(trained.parameters())],
        "forward": lambda model, batch: F.cross_entropy(model(batch[0]), batch[1]),
        "device": torch.device("cpu"),
    }
    return Pipeline(**{**given, **changes})


def data_traits(loader: Any) -> DataTraits:
    return read_traits(make_pipeline(MODEL, loader=loader)).data


class Rows(Dataset[Any]):
    """Indexed data that reads as ``read`` does."""

    def __init__(self, read: Callable[[int], Any], rows: int = 10) -> None:
        self.read, self.rows = read, rows

    def __getitem__(self, index: int) -> Any:
        return self.read(index)

    def __len__(self) -> int:
        return self.rows


class Lengthless(Dataset[Any]):
    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor(float(index))


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        yield torch.ones(2)


class Backwards(Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(9, -1, -1))

    def __len__(self) -> int:
        return 10


class OtherTensors(TensorDataset):
    pass


# Data.


def test_a_plain_tensor_dataset_is_known_by_its_rows() -> None:
    assert data_traits(make_loader()) == DataTraits(
        kind="tensors",
        rows=50,
        batch_size=8,
        workers=0,
        default_collate=True,
        draws_random=False,
    )


@pytest.mark.parametrize(
    "dataset", [Rows(lambda index: torch.tensor(index)), OtherTensors(torch.ones(10, 2))]
)
def test_indexed_data_of_ones_own_is_a_map(dataset: Dataset[Any]) -> None:
    found = data_traits(DataLoader(dataset, batch_size=5, num_workers=2))
    assert (found.kind, found.rows, found.batch_size, found.workers) == ("map", 10, 5, 2)


def test_a_stream_has_no_rows_and_is_not_read() -> None:
    found = data_traits(DataLoader(Stream(), batch_size=5))
    assert (found.kind, found.rows, found.draws_random) == ("iterable", None, None)


def test_what_is_no_data_loader_is_other() -> None:
    found = data_traits([torch.ones(2)])
    assert (found.kind, found.rows, found.default_collate) == ("other", None, False)


def test_indexed_data_without_a_length_is_read_all_the_same() -> None:
    found = data_traits(DataLoader(Lengthless(), sampler=Backwards(), batch_size=5))
    assert (found.kind, found.rows, found.draws_random) == ("map", None, False)


def test_data_that_is_not_indexed_by_numbers_is_not_judged() -> None:
    dataset: Any = {"left": torch.ones(1), "right": torch.ones(1)}
    loader = DataLoader(dataset, sampler=["left", "right"], batch_size=2)
    assert data_traits(loader).draws_random is None


@pytest.mark.parametrize(
    "error",
    [KeyError, TypeError, ValueError, OSError, RuntimeError, AttributeError, ZeroDivisionError],
)
def test_data_whose_first_row_cannot_be_read_is_not_judged(error: type[Exception]) -> None:
    def read(index: int) -> Any:
        raise error("the first row is a header")

    assert data_traits(DataLoader(Rows(read))).draws_random is None


def test_data_without_a_row_is_not_judged() -> None:
    assert data_traits(DataLoader(Rows(lambda index: index, rows=0))).draws_random is None


def test_a_collate_function_of_ones_own_is_noticed() -> None:
    assert not data_traits(make_loader(collate_fn=lambda rows: rows)).default_collate
    assert not data_traits(make_loader(batch_size=None, shuffle=False)).default_collate


def test_a_quiet_generator_of_ones_own_is_noticed_by_what_it_gives() -> None:
    numbers = np.random.default_rng(0)
    assert data_traits(DataLoader(Rows(lambda index: numbers.random(3)))).draws_random
    assert data_traits(DataLoader(Rows(lambda index: float(numbers.random())))).draws_random
    drawn = torch.Generator().manual_seed(0)
    rows = Rows(lambda index: {"a": [torch.rand(2, generator=drawn)]})
    assert data_traits(DataLoader(rows)).draws_random


@pytest.mark.parametrize(
    "draw",
    [
        torch.rand,
        lambda size: np.random.rand(size) * 0,
        lambda size: torch.full((size,), random.random() * 0),
        lambda size: torch.full((size,), np.random.normal() * 0),
    ],
    ids=["torch", "numpy", "python", "numpy's normal"],
)
def test_data_that_draws_random_numbers_is_noticed_and_leaves_no_trace(
    draw: Callable[[int], Any],
) -> None:
    np.random.rand()  # NumPy makes numbers in blocks: this one has some left
    before = random_settings()
    assert data_traits(DataLoader(Rows(lambda index: draw(2)))).draws_random is True
    assert random_settings() == before


@pytest.mark.parametrize(
    "read",
    [
        lambda index: (np.arange(3), "name", 1.5, None),
        lambda index: {"a": torch.tensor([float("nan")]), "b": np.array([np.nan])},
    ],
    ids=["fixed", "not a number"],
)
def test_data_that_reads_the_same_twice_is_not_random(read: Callable[[int], Any]) -> None:
    assert data_traits(DataLoader(Rows(read))).draws_random is False


# The loss.


def rows_loss(reduction: str) -> Loss:
    return lambda output, target: F.cross_entropy(output, target, reduction=reduction)


def pairwise_loss(output: Tensor, target: Tensor) -> Tensor:
    """Compares every row with every other one."""
    return torch.cdist(output, output).mean()


def reduction_of(loss: Loss, rows: int = 12, **changes: Any) -> Traits:
    torch.manual_seed(0)
    model = changes.pop("model", None) or nn.Linear(6, 3)
    forward = lambda model, batch: loss(model(batch[0]), batch[1])  # noqa: E731
    batch = (INPUTS[:rows], torch.arange(rows) % 3)
    return read_traits(make_pipeline(model, **{"forward": forward, **changes}), batch)


@pytest.mark.parametrize(
    ("loss", "reduction"),
    [
        (rows_loss("mean"), "mean"),
        (rows_loss("sum"), "sum"),
        (pairwise_loss, "coupled"),
        (lambda output, target: rows_loss("mean")(output, target) ** 2, "coupled"),
    ],
    ids=["mean", "sum", "pairwise", "square of a mean"],
)
def test_how_a_loss_combines_rows_is_probed(loss: Loss, reduction: str) -> None:
    traits = reduction_of(loss)
    assert traits.loss_reduction == reduction
    assert traits.couples_batch is (reduction == "coupled")


def test_a_batch_of_four_rows_is_enough_for_the_probe() -> None:
    assert reduction_of(rows_loss("sum"), rows=4).loss_reduction == "sum"


@pytest.mark.parametrize("rows", [1, 2])
def test_too_few_rows_say_nothing(rows: int) -> None:
    assert reduction_of(rows_loss("mean"), rows=rows).loss_reduction == "unknown"


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
def test_a_loss_without_size_says_nothing(value: float) -> None:
    """A hinge that is met everywhere: zero is both the mean and the sum of zeros."""
    traits = reduction_of(lambda output, target: output.sum() * 0 + value)
    assert traits.loss_reduction == "unknown"


def test_a_loss_over_tokens_is_a_mean_once_tokens_are_counted() -> None:
    """Rows have unequal numbers of tokens, so that the mean over rows is another one."""
    target = torch.where(torch.arange(6) < torch.arange(12)[:, None] // 2 + 1, 1, -100)

    def forward(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch[0].unsqueeze(-1)).transpose(1, 2), batch[1])

    def count_tokens(batch: Any) -> int:
        return int((batch[1] != -100).sum())

    by_rows = make_pipeline(nn.Linear(1, 3), forward=forward)
    by_tokens = make_pipeline(nn.Linear(1, 3), forward=forward, count=count_tokens)
    assert read_traits(by_rows, (INPUTS, target)).loss_reduction == "coupled"
    assert read_traits(by_tokens, (INPUTS, target)).loss_reduction == "mean"


def test_without_a_batch_the_loss_stays_unknown() -> None:
    assert read_traits(make_pipeline(nn.Linear(6, 3))).loss_reduction == "unknown"


def test_a_task_that_carries_state_is_not_probed() -> None:
    def forward(model: nn.Module, batch: Any, state: Any) -> tuple[Tensor, Any]:
        return rows_loss("mean")(model(batch[0]), batch[1]), state

    traits = reduction_of(rows_loss("mean"), initial_state=dict, forward=forward)
    assert traits.loss_reduction == "unknown"


def test_batchnorm_couples_rows_whatever_the_probe_says() -> None:
    traits = reduction_of(rows_loss("mean"), model=make_model())
    assert traits.loss_reduction == "mean"
    assert traits.couples_batch


def test_the_word_of_the_user_goes_before_the_probe() -> None:
    said = reduction_of(rows_loss("mean"), couples_batch=True)
    assert said.loss_reduction == "coupled"
    denied = reduction_of(pairwise_loss, couples_batch=False)
    assert denied.loss_reduction == "unknown"
    assert not denied.couples_batch
    assert reduction_of(rows_loss("sum"), couples_batch=False).loss_reduction == "sum"


def test_a_batch_is_cut_into_the_multiples_that_the_task_asks_for() -> None:
    """And once whole with gradients, whose graph tells how attention is computed, and once more to
    see whether it draws random numbers."""
    seen: list[tuple[int, bool]] = []

    def forward(model: nn.Module, batch: Any) -> Tensor:
        seen.append((len(batch[0]), torch.is_grad_enabled()))
        return model(batch[0]).sum()

    reduction_of(rows_loss("mean"), forward=forward, batch_multiple_of=4)
    assert seen == [(12, False), (8, False), (4, False), (12, True), (12, False)]


def test_reading_traits_disturbs_nothing() -> None:
    model = make_model()
    model[1].eval()  # as a user freezes BatchNorm
    pipeline = make_pipeline(model)
    batch = next(iter(pipeline.loader))
    drawing = lambda model, batch: (model(batch[0]) * torch.rand(3) * random.random()).mean()  # noqa: E731
    pipeline.forward = drawing
    before = model_bits(model), optimizer_bits(pipeline.optimizers[0]), random_settings()
    loader = pipeline.loader
    read_traits(pipeline, batch)
    after = model_bits(model), optimizer_bits(pipeline.optimizers[0]), random_settings()
    assert after == before
    assert pipeline.loader is loader
    assert [module.training for module in model] == [True, False, True, True, True]
    assert torch.is_grad_enabled()


def test_a_loss_that_raises_leaves_the_mode_and_the_generators() -> None:
    def fail(model: nn.Module, batch: Any) -> Tensor:
        torch.rand(3)
        raise ValueError("no such label")

    model = make_model()
    before = model_bits(model), random_settings()
    with pytest.raises(ValueError, match="no such label"):
        read_traits(make_pipeline(model, forward=fail), (INPUTS, INPUTS))
    assert (model_bits(model), random_settings()) == before


# The model.


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.layers = nn.Sequential(
            nn.Sequential(nn.Linear(2, 2)),
            nn.Sequential(nn.ReLU()),
            nn.Linear(2, 2),
            nn.Linear(2, 2),
        )
        self.once = nn.ModuleList([nn.TransformerEncoderLayer(4, 1)])


def model_traits(model: nn.Module) -> Any:
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
    return read_traits(make_pipeline(MODEL, model=model, optimizers=[optimizer])).model


def test_blocks_are_repeated_where_a_container_holds_several_of_a_kind() -> None:
    """Leaves such as two Linear layers are not blocks; one block alone is not repeated."""
    assert model_traits(Parts()).repeated_blocks == ("Block", "Sequential")


@pytest.mark.parametrize(
    ("module", "families"),
    [
        (nn.Linear(2, 2), {"linear"}),
        (nn.Conv1d(1, 1, 1), {"conv"}),
        (nn.ConvTranspose2d(1, 1, 1), {"conv"}),
        (nn.LSTM(2, 2), {"recurrent"}),
        (nn.GRUCell(2, 2), {"recurrent"}),
        (nn.Embedding(2, 2), {"embedding"}),
        (nn.BatchNorm2d(2), {"batchnorm"}),
        (nn.LayerNorm(2), set()),
        (nn.InstanceNorm1d(2), set()),
        (nn.Dropout2d(), {"dropout"}),
        (nn.MultiheadAttention(2, 1), {"attention", "linear"}),
        (nn.TransformerEncoderLayer(2, 1), {"attention", "dropout", "linear"}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_a_model_is_of_the_families_of_its_layers(module: nn.Module, families: set[str]) -> None:
    assert set(model_traits(nn.Sequential(module)).families) == families


def test_parameters_are_counted_once_where_they_are_shared() -> None:
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    found = model_traits(model.half())
    assert (found.name, found.parameters, found.parameter_bytes) == ("Sequential", 16, 32)


# The optimizer.


@pytest.mark.parametrize(
    ("kind", "options", "implementation", "fusible"),
    [
        (torch.optim.Adam, {}, "loop", True),
        (torch.optim.AdamW, {"foreach": True}, "foreach", True),
        (torch.optim.AdamW, {"fused": True}, "fused", True),
        (torch.optim.SGD, {"lr": 0.1, "foreach": False}, "loop", True),
        (torch.optim.Adagrad, {}, "loop", True),
        (torch.optim.Adam, {"differentiable": True}, "loop", False),
        (torch.optim.RMSprop, {}, "other", False),
        (torch.optim.RMSprop, {"foreach": True}, "foreach", False),
        (torch.optim.LBFGS, {}, "other", False),
        (torch.optim.SparseAdam, {}, "other", False),
    ],
)
def test_an_optimizer_is_known_by_its_implementation(
    kind: Any, options: dict[str, Any], implementation: str, fusible: bool
) -> None:
    model = nn.Linear(6, 3)
    optimizer = kind(model.parameters(), **options)
    found = read_traits(make_pipeline(model, optimizers=[optimizer])).optimizers
    assert [(each.name, each.implementation, each.can_fuse) for each in found] == [
        (kind.__name__, implementation, fusible)
    ]


def test_every_optimizer_is_read() -> None:
    model = nn.Linear(6, 3)
    optimizers = [
        torch.optim.Adam([model.weight]),
        torch.optim.RMSprop([model.bias]),
    ]
    found = read_traits(make_pipeline(model, optimizers=optimizers)).optimizers
    assert [each.can_fuse for each in found] == [True, False]


def test_complex_parameters_cannot_be_fused() -> None:
    assert not can_fuse(torch.optim.Adam([nn.Parameter(torch.ones(2, dtype=torch.cfloat))]))


def test_a_subclass_of_a_fusible_optimizer_is_not_taken_for_it() -> None:
    class Mine(torch.optim.Adam):
        pass

    assert not can_fuse(Mine(nn.Linear(2, 2).parameters()))
