"""The arithmetic of a step, against what is known of it by hand."""

import pytest
import torch
from torch import Tensor, nn

from hasten.errors import HastenError
from hasten.measure import ceilings as module
from hasten.measure.ceilings import measure_ceilings, types_of
from hasten.measure.messages import WorkCounted
from hasten.measure.rates import work_of
from hasten.measure.work import computed_in, count_work
from hasten.records.plan import NAIVE, Plan
from hasten.records.profile import Ceilings
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.task import Task

ROWS = 8


def _count(model: nn.Module, inputs: Tensor, plan: Plan = NAIVE) -> WorkCounted:
    task = Task(
        model=model,
        data=(inputs, torch.zeros(len(inputs))),
        forward=lambda model, batch: sum(each.sum() for each in _outputs(model(batch[0]))),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
        batch_size=ROWS,
    )
    run = Run(Pipeline.from_task(task), plan)
    return count_work(run, run.endless())


def _outputs(output: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (output[0],) if isinstance(output, tuple) else (output,)


def test_a_linear_layer_is_one_product_forward_and_one_backward_for_its_weights() -> None:
    counts = _count(nn.Linear(16, 32), torch.randn(ROWS, 16))
    assert counts.flops == {"fp32": 2 * 2 * ROWS * 16 * 32}


def test_a_second_layer_has_a_product_backward_for_its_inputs_too() -> None:
    counts = _count(nn.Sequential(nn.Linear(16, 32), nn.Linear(32, 4)), torch.randn(ROWS, 16))
    assert counts.flops == {"fp32": 2 * ROWS * (2 * 16 * 32 + 3 * 32 * 4)}


def test_a_recurrent_layer_is_counted_for_every_moment() -> None:
    length, width, hidden = 5, 3, 16
    counts = _count(nn.LSTM(width, hidden, 2, batch_first=True), torch.randn(ROWS, length, width))
    layers = 4 * hidden * (width + hidden) + 4 * hidden * (hidden + hidden)
    assert counts.flops == {"fp32": 3 * 2 * ROWS * length * layers}


class Attending(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, inputs: Tensor) -> Tensor:
        heads = inputs * self.scale
        return nn.functional.scaled_dot_product_attention(heads, heads, heads)


def test_attention_on_the_cpu_is_counted() -> None:
    heads, length, width = 2, 6, 8
    counts = _count(Attending(width), torch.randn(ROWS, heads, length, width))
    product = 2 * ROWS * heads * length * length * width
    assert counts.flops == {"fp32": 2 * product + 5 * product}


def test_products_are_told_by_their_type() -> None:
    counts = _count(nn.Linear(4, 4, dtype=torch.float64), torch.randn(ROWS, 4).double())
    assert set(counts.flops) == {"fp64"}
    counts = _count(nn.Linear(4, 4, dtype=torch.bfloat16), torch.randn(ROWS, 4).bfloat16())
    assert set(counts.flops) == {"bf16"}


class FakeProduct:
    """A product on a CUDA device, as far as its type is asked for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


@pytest.mark.parametrize(
    ("operation", "allowed", "expected"),
    [
        ("aten.mm.default", ("tf32", "ieee", "ieee"), "tf32"),
        ("aten.mm.default", ("ieee", "tf32", "tf32"), "fp32"),
        ("aten.convolution.default", ("ieee", "tf32", "ieee"), "tf32"),
        ("aten._cudnn_rnn.default", ("ieee", "ieee", "tf32"), "tf32"),
        ("aten.mm.default", ("none", "tf32", "tf32"), "fp32"),
    ],
)
def test_fp32_on_a_device_is_what_torch_may_make_of_it(
    operation: str,
    allowed: tuple[str, str, str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backends = torch.backends
    homes = (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn)
    before = [home.fp32_precision for home in homes]
    tensor = torch.zeros(2, device="meta")
    monkeypatch.setattr(type(tensor), "device", torch.device("cuda"))
    try:
        for home, value in zip(homes, allowed, strict=True):
            home.fp32_precision = value
        assert computed_in(FakeProduct(operation), (tensor,)) == expected
    finally:
        for home, value in zip(homes, before, strict=True):
            home.fp32_precision = value


class Adding(nn.Module):
    def __init__(self, rows: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, 1024))

    def forward(self, inputs: Tensor) -> Tensor:
        return (inputs.view(-1, 1024) + self.weight).transpose(0, 1)


def test_what_is_added_is_moved_and_views_are_not() -> None:
    size = ROWS * 1024 * 4
    counts = _count(Adding(ROWS), torch.randn(ROWS, 1024))
    assert counts.flops == {}
    # Forward two are read and one is written, and the sum reads one. Backward a gradient of ones is
    # expanded, a view, and copied for the weight.
    numbers = 4 + 8 + 8 + 4  # bytes: the sum, adding zero to it, its gradient made, and copied
    assert counts.moved_bytes == (3 + 1 + 1) * size + numbers


CEILINGS = Ceilings(flops_per_s={"fp32": 1e12, "bf16": 8e12}, bytes_per_s=1e9, launch_s=1e-6)


def test_work_is_a_share_of_the_ceilings() -> None:
    work = work_of(WorkCounted(flops={"fp32": 1e9}, moved_bytes=1e6), CEILINGS, step_s=0.01)
    assert work is not None
    assert (work.flops, work.flops_per_s) == (1e9, 1e11)
    assert (work.share, work.moved_share) == (pytest.approx(0.1), pytest.approx(0.1))
    assert (work.computed_in, work.fastest) == ("fp32", "bf16")


def test_types_add_up_each_by_its_own_ceiling() -> None:
    counts = WorkCounted(flops={"fp32": 1e9, "bf16": 8e9}, moved_bytes=0.0)
    work = work_of(counts, CEILINGS, step_s=0.01)
    assert work is not None
    assert work.share == pytest.approx(0.2)
    assert work.computed_in == "bf16"


def test_without_products_there_is_no_work() -> None:
    assert work_of(WorkCounted(flops={}, moved_bytes=1.0), CEILINGS, 0.01) is None


def test_a_type_without_a_ceiling_is_named() -> None:
    counted = WorkCounted(flops={"fp32": 1.0, "float8_e4m3fn": 1.0}, moved_bytes=0.0)
    with pytest.raises(HastenError, match="no ceiling for float8_e4m3fn"):
        work_of(counted, CEILINGS, 0.01)


def test_ceilings_are_measured_for_every_type_of_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SIDE", {"cpu": 16})
    monkeypatch.setattr(module, "COPIED_BYTES", {"cpu": 1024})
    monkeypatch.setattr(module, "EACH_S", 0.0)
    before = torch.backends.cuda.matmul.fp32_precision
    cpu = torch.device("cpu")
    found = measure_ceilings(cpu)
    assert list(found.flops_per_s) == types_of(cpu)
    assert {"fp32", "fp64"} <= set(found.flops_per_s)
    assert all(rate > 0 for rate in (*found.flops_per_s.values(), found.bytes_per_s))
    assert found.launch_s > 0
    assert torch.backends.cuda.matmul.fp32_precision == before
