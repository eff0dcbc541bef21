"""Techniques on a CUDA device: on their rung, taken back whole, and really at work."""

import functools
import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from arms import Form, Trace, Yardstick, first_difference, measure_yardstick, trace
from hasten.data.loaders.overlap import OverlappedLoader
from hasten.data.loaders.resident import ResidentLoader
from hasten.records.plan import Plan, RawPart
from hasten.runtime.run import Run
from hasten.task.batch import RowsOf
from hasten.task.pipeline import Pipeline
from hasten.task.traits import probe_reduction
from hasten.techniques.registry import decode
from torch_state import model_bits, optimizer_bits, optimizer_form, random_settings, torch_settings
from trainings import NAMES, make_training

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
CUDA = torch.device("cuda")
Parts = list[tuple[str, RawPart]]
HAVE_BLOCKS = ("convolutions", "transformer", "language")
HAVE_ATTENTION = ("transformer", "language")

BITWISE: Parts = [
    ("activation_checkpointing", {"keep": "nothing"}),
    ("activation_checkpointing", {"keep": "products"}),
    ("batched_loader", {}),
    ("late_readings", {}),
    ("overlapped_transfer", {}),
    ("recurrent_state", {"state": "none"}),
    ("recurrent_state", {"state": "kept"}),
    ("resident_data", {}),
]
ROUNDING: Parts = [
    ("attention", {"masks": "simplify"}),
    ("attention", {"kernel": "efficient"}),
    ("convolution_search", {}),
    ("fused_optimizer", {}),
    ("gradient_accumulation", {"steps": 2}),
    ("memory_format", {}),
]
NEEDS_CUDA: list[tuple[str, RawPart, str]] = [
    ("convolution_search", {}, "convolutions"),
    ("matmul_precision", {}, "perceptron"),
    ("matmul_precision", {"precision": "medium"}, "perceptron"),
    ("overlapped_transfer", {}, "perceptron"),
    ("resident_data", {}, "perceptron"),
    ("whole_step_graph", {}, "perceptron"),
    ("late_readings", {}, "perceptron"),
    ("fused_optimizer", {}, "perceptron"),
    ("mixed_precision", {"dtype": "bf16"}, "recurrent"),
    ("mixed_precision", {"dtype": "fp16"}, "recurrent"),
]


def named(cases: list[Any]) -> list[str]:
    return ["-".join([case[0], *map(str, case[1].values())]) for case in cases]


def on_device(training: str, *, dropout: bool = True) -> Pipeline:
    return make_training(training, dropout=dropout, device="cuda")


def apply(pipeline: Pipeline, name: str, part: RawPart) -> Any:
    ((technique, decoded),) = decode(Plan(parts={name: part}))
    return technique.apply(pipeline, decoded)


def applies(technique: str, training: str) -> bool:
    return {
        "activation_checkpointing": training in HAVE_BLOCKS,
        "attention": training in HAVE_ATTENTION,
        "convolution_search": True,  # it has only nothing to do without convolutions
        "gradient_accumulation": training != "convolutions",
        "memory_format": training == "convolutions",
        "recurrent_state": training == "recurrent",
    }.get(technique, True)


@pytest.fixture(autouse=True)
def _repeatable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Algorithms that add up in the same order each time, so that the arms can be equal."""
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # the yardstick is fp32's
    yield
    torch._dynamo.reset()


@pytest.fixture
def _deterministic() -> Iterator[None]:
    """Also what no flag of cuDNN decides, such as the backward pass of attention."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@functools.cache
def plain(training: str, form: Form) -> Trace:
    return trace(on_device(training), Plan(), form)


@functools.cache
def yardstick(training: str, form: Form) -> Yardstick:
    return measure_yardstick(lambda: on_device(training, dropout=False), Plan(), form)


def assert_done(found: Trace, technique: str) -> None:
    assert found.run is not None
    said = {each.technique: each for each in found.run.applied}
    assert said[technique].outcome == "done", said[technique].why


@pytest.mark.usefixtures("_deterministic")
@pytest.mark.parametrize("training", NAMES)
def test_the_plain_training_repeats_itself_to_the_bit(training: str) -> None:
    """Without this the tests below would say nothing."""
    again = trace(on_device(training), Plan(), "whole")
    assert first_difference(plain(training, "whole"), again) == ""


@pytest.mark.usefixtures("_deterministic")
@pytest.mark.parametrize("training", NAMES)
@pytest.mark.parametrize("form", ["pieces", "whole"])
@pytest.mark.parametrize(("technique", "part"), BITWISE, ids=named(BITWISE))
def test_a_bitwise_technique_is_equal_to_the_bit(
    technique: str, part: RawPart, form: Form, training: str
) -> None:
    changed = trace(on_device(training), Plan(parts={technique: part}), form)
    if applies(technique, training):
        assert_done(changed, technique)
    assert first_difference(plain(training, form), changed) == ""


@pytest.mark.parametrize("training", NAMES)
@pytest.mark.parametrize("form", ["pieces", "whole"])
@pytest.mark.parametrize(("technique", "part"), ROUNDING, ids=named(ROUNDING))
def test_a_rounding_technique_stays_within_rounding(
    technique: str, part: RawPart, form: Form, training: str
) -> None:
    changed = trace(on_device(training, dropout=False), Plan(parts={technique: part}), form)
    if changed.run is not None:
        changed.run.undo()
    if applies(technique, training):
        assert_done_or_undone(changed, technique)
    assert yardstick(training, form).share(changed) <= 1.0


def assert_done_or_undone(found: Trace, technique: str) -> None:
    """It was neither skipped nor dropped; by now it is undone."""
    assert found.run is not None
    assert technique not in {each.technique for each in found.run.dropped}


@pytest.mark.parametrize(
    ("training", "regions"),
    [
        ("perceptron", "whole"),
        ("convolutions", "whole"),
        ("transformer", "whole"),
        ("transformer", "blocks"),
    ],
)
def test_compiled_code_stays_within_rounding(training: str, regions: str) -> None:
    plan = Plan(parts={"compile": {"regions": regions}})
    changed = trace(on_device(training, dropout=False), plan, "whole")
    assert_done(changed, "compile")
    assert yardstick(training, "whole").share(changed) <= 1.0


@pytest.mark.usefixtures("_deterministic")
@pytest.mark.parametrize("training", NAMES)
def test_all_bitwise_techniques_together_are_equal_to_the_bit(training: str) -> None:
    parts = {
        name: part
        for name, part in reversed(BITWISE)
        if applies(name, training) and name not in ("batched_loader", "overlapped_transfer")
    }
    changed = trace(on_device(training), Plan(parts=parts), "whole")
    for name in parts:
        assert_done(changed, name)
    assert first_difference(plain(training, "whole"), changed) == ""


def everything(pipeline: Pipeline) -> list[Any]:
    model, optimizer = pipeline.model, pipeline.optimizers[0]
    return [
        model_bits(model),
        optimizer_bits(optimizer),
        dict(vars(pipeline)),
        torch_settings(),
        random_settings(),
        torch.cuda.get_rng_state().tolist(),
        dict(os.environ),
    ]


@pytest.mark.parametrize(("name", "part", "training"), NEEDS_CUDA, ids=named(NEEDS_CUDA))
@pytest.mark.parametrize("steps_before", [0, 2])
def test_a_technique_applied_and_undone_leaves_everything_as_it_was(
    name: str, part: RawPart, training: str, steps_before: int
) -> None:
    pipeline = on_device(training)
    run = Run(pipeline)
    for _, batch in zip(range(steps_before), run.endless(), strict=False):
        run.step(batch)
    before = everything(pipeline)
    effect = apply(pipeline, name, part)
    assert effect.words()
    effect.undo()
    assert everything(pipeline) == before
    effect.undo()
    assert everything(pipeline) == before


@pytest.mark.parametrize(("name", "part", "training"), NEEDS_CUDA, ids=named(NEEDS_CUDA))
def test_a_technique_undone_after_some_steps_leaves_the_form_of_a_plain_training(
    name: str, part: RawPart, training: str
) -> None:
    changed, settings = on_device(training), torch_settings()
    loader, forward, transfer = changed.loader, changed.forward, changed.transfer
    run = Run(changed, Plan(parts={name: part}))
    for _, batch in zip(range(5), run.endless(), strict=False):
        run.step(batch)
    assert [str(each) for each in run.applied if each.outcome != "done"] == []
    run.undo()
    assert torch_settings() == settings
    assert (changed.loader, changed.forward, changed.transfer) == (loader, forward, transfer)
    assert changed.scaler is None
    assert changed.step is run.eager
    other = Run(on_device(training))
    for _, batch in zip(range(5), other.endless(), strict=False):
        other.step(batch)
    assert optimizer_form(changed.optimizers[0]) == optimizer_form(other.pipeline.optimizers[0])
    run.step(next(iter(run.dataloader)))  # and it goes on


def make_loader(**options: Any) -> DataLoader[Any]:
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(50, 3, 4, generator=generator)
    return DataLoader(
        TensorDataset(images, torch.arange(50)), **{"batch_size": 8, "shuffle": True, **options}
    )


@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"pin_memory": True}])
@pytest.mark.parametrize("kind", [ResidentLoader, OverlappedLoader])
def test_batches_on_the_device_are_those_of_the_loader(kind: Any, options: Any) -> None:
    torch.manual_seed(2)
    expected = [
        [each.clone() for each in batch] for _ in range(3) for batch in make_loader(**options)
    ]
    after = random_settings()
    torch.manual_seed(2)
    loader = kind(make_loader(**options), CUDA)
    found = [list(batch) for _ in range(3) for batch in loader]
    assert random_settings() == after
    for one, other in zip(expected, found, strict=True):
        assert all(each.is_cuda for each in other)
        assert all(torch.equal(a, b.cpu()) for a, b in zip(one, other, strict=True))


def test_resident_rows_are_gathered_on_the_device() -> None:
    batch = next(iter(ResidentLoader(make_loader(), CUDA)))
    assert type(batch) is RowsOf
    assert batch.rows.is_cuda
    assert all(tensor.is_cuda for tensor in batch.tensors)


class Mix(nn.Module):
    """A block of attention in heads of 64, which every kernel takes; its mask is a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Linear(128, 3 * 128)
        self.out = nn.Sequential(nn.Linear(128, 128), nn.Dropout(0.1))
        seen = torch.ones(64, 64, dtype=torch.bool).tril()
        self.register_buffer("seen", seen, persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        query, key, value = self.into(inputs).unflatten(-1, (3, 2, 64)).permute(2, 0, 3, 1, 4)
        met = F.scaled_dot_product_attention(query, key, value, attn_mask=self.seen)
        return inputs + self.out(met.transpose(1, 2).flatten(2))


def attend(parts: dict[str, RawPart]) -> tuple[dict[str, str], list[float]]:
    """What was said of each technique after four steps, and their losses."""
    torch.manual_seed(0)
    model = nn.Sequential(Mix(), Mix(), Mix()).cuda()
    batch = [torch.randn(8, 64, 128), torch.randn(8, 64, 128)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = Run(Pipeline.from_loop(model, [batch], optimizer, F.mse_loss), Plan(parts=parts))
    losses = [float(run.step(batch)) for _ in range(4)]
    return {each.technique: str(each) for each in run.applied}, losses


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_the_fast_kernel_runs_once_the_mask_is_said_in_words(dtype: str) -> None:
    """With the mask as a matrix torch cannot take it."""
    precision: dict[str, RawPart] = {"mixed_precision": {"dtype": dtype}}
    kept, _ = attend({**precision, "attention": {"masks": "keep"}})
    assert "flash" not in kept["attention"]
    said, _ = attend({**precision, "attention": {"masks": "simplify", "kernel": "flash"}})
    assert said["attention"] == "attention: done (kernels: flash, 3 masks simplified)"


def test_a_kernel_that_cannot_take_the_inputs_falls_back() -> None:
    """The flash kernel takes 16 bits only."""
    said, losses = attend({"attention": {"masks": "simplify", "kernel": "flash"}})
    assert said["attention"].startswith("attention: fell back (RuntimeError: No available kernel")
    assert losses == attend({})[1]


@pytest.mark.usefixtures("_deterministic")
@pytest.mark.parametrize("keep", ["nothing", "products"])
def test_checkpointed_attention_takes_the_same_kernel_again(keep: str) -> None:
    parts: dict[str, RawPart] = {
        "mixed_precision": {"dtype": "bf16"},
        "attention": {"masks": "simplify", "kernel": "flash"},
    }
    said, losses = attend({**parts, "activation_checkpointing": {"keep": keep}})
    assert [each.split(" (")[0].split(": ")[1] for each in said.values()] == ["done"] * 3
    assert losses == attend(parts)[1]


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Dropout(0.1), nn.Linear(1024, 256))
            for _ in range(8)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        for block in self.blocks:
            inputs = inputs + block(inputs)
        return inputs


def peak(parts: dict[str, RawPart]) -> int:
    """Bytes of a step beyond what lay there before it."""
    torch.manual_seed(0)
    model = Deep().cuda()
    batch = [torch.randn(4096, 256), torch.randn(4096, 256)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = Run(Pipeline.from_loop(model, [batch], optimizer, F.mse_loss), Plan(parts=parts))
    for _ in range(2):
        run.step(batch)
    assert [str(each) for each in run.applied if each.outcome != "done"] == []
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run.step(batch)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def test_what_saves_memory_saves_memory() -> None:
    whole = peak({})
    assert peak({"activation_checkpointing": {"keep": "nothing"}}) < 0.5 * whole
    assert peak({"activation_checkpointing": {"keep": "products"}}) < whole
    assert peak({"gradient_accumulation": {"steps": 4}}) < 0.5 * whole


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_a_loss_in_sixteen_bits_is_still_known_to_be_a_mean(dtype: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 10)).cuda()
    batch = [torch.randn(96, 64), torch.randint(10, (96,))]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pipeline = Pipeline.from_loop(model, [batch], optimizer, F.cross_entropy)
    Run(pipeline, Plan(parts={"mixed_precision": {"dtype": dtype}}))
    assert probe_reduction(pipeline, batch) == "mean"


def test_tf32_is_really_used() -> None:
    torch.manual_seed(0)
    one, other = torch.randn(2, 512, 512, device="cuda")
    exact = one @ other
    effect = apply(on_device("perceptron"), "matmul_precision", {})
    rounded = one @ other
    effect.undo()
    assert not torch.equal(exact, rounded)
    assert torch.allclose(exact, rounded, atol=0.5)
    assert torch.equal(one @ other, exact)


def test_late_readings_are_those_of_the_steps() -> None:
    run = Run(on_device("perceptron"), Plan(parts={"late_readings": {}}))
    losses = [float(run.step(batch)) for batch in run.epoch()]
    assert run.readings is not None
    latest = run.readings.wait()
    assert latest is not None
    assert (latest.step, latest.loss) == (4, losses[-1])
    assert latest.gradient_norm == float(run.eager.gradient_norm)  # type: ignore[arg-type]


def test_a_recurrent_model_trains_in_sixteen_bits_with_one_scaler() -> None:
    run = Run(on_device("recurrent"), Plan(parts={"mixed_precision": {"dtype": "fp16"}}))
    scaler = run.pipeline.scaler
    losses = [float(run.step(batch)) for _ in range(2) for batch in run.epoch()]
    assert [each.outcome for each in run.applied] == ["done"]
    assert run.pipeline.scaler is scaler
    assert all(loss == loss for loss in losses)
