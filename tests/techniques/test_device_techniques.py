"""Techniques of CUDA devices, as far as they can be held to their word without one.

The pipeline says that it is on a device; nothing is computed. ``tests/gpu`` has the rest.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch
from torch.optim.lr_scheduler import CyclicLR, OneCycleLR, StepLR

from hasten.host.environment import read_environment
from hasten.records.plan import Plan
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.traits import read_traits
from hasten.techniques.registry import decode, get_technique
from hasten.techniques.technique import CannotApply, Effect
from trainings import make_training

CUDA = torch.device("cuda")


def on_device(training: str = "perceptron") -> Pipeline:
    pipeline = make_training(training)
    Run(pipeline)
    pipeline.device = CUDA
    return pipeline


def apply(pipeline: Pipeline, name: str, **part: Any) -> Effect:
    ((technique, decoded),) = decode(Plan(parts={name: part}))
    return technique.apply(pipeline, decoded)


def refusal_of(pipeline: Pipeline, name: str, **part: Any) -> str:
    with pytest.raises(CannotApply) as refusal:
        apply(pipeline, name, **part)
    return str(refusal.value)


@pytest.fixture
def _plain_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)


@pytest.mark.usefixtures("_plain_cudnn")
def test_cudnns_search_is_switched_on_and_off() -> None:
    effect = apply(on_device("convolutions"), "convolution_search")
    assert torch.backends.cudnn.benchmark
    assert effect.did_run() is None
    torch.backends.cudnn.benchmark = False
    assert effect.did_run() == "other code has switched it off"
    effect.undo()
    effect.undo()
    assert not torch.backends.cudnn.benchmark


@pytest.mark.usefixtures("_plain_cudnn")
def test_cudnns_search_is_refused_where_it_is_on_or_unwanted() -> None:
    pipeline = on_device("convolutions")
    torch.use_deterministic_algorithms(True)
    try:
        assert refusal_of(pipeline, "convolution_search") == (
            "deterministic algorithms are asked for, and it could take others"
        )
    finally:
        torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.benchmark = True
    assert refusal_of(pipeline, "convolution_search") == "cuDNN's benchmark mode is on already"
    technique = get_technique("convolution_search")
    assert technique.unsuited(read_traits(make_training("convolutions"))) is None
    assert technique.unsuited(read_traits(make_training("perceptron"))) == (
        "the model has no convolution"
    )


def capability(monkeypatch: pytest.MonkeyPatch, major: int, minor: int) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (major, minor))


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_the_precision_of_products_is_set_and_put_back(
    monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    capability(monkeypatch, 8, 0)
    assert torch.get_float32_matmul_precision() == "highest"
    effect = apply(on_device(), "matmul_precision", precision=precision)
    assert torch.get_float32_matmul_precision() == precision
    assert effect.words() == f"float32 matmul precision {precision}, highest before"
    assert effect.did_run() is None
    torch.set_float32_matmul_precision("highest")
    assert effect.did_run() == "other code has set it to highest"
    effect.undo()
    effect.undo()
    assert torch.get_float32_matmul_precision() == "highest"


def test_the_precision_of_products_is_refused_without_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    capability(monkeypatch, 7, 5)
    reason = "a device of compute capability 7.5 has no TF32"
    assert refusal_of(on_device(), "matmul_precision") == reason
    environment = read_environment()
    old = msgspec.structs.replace(environment.device, capability=(7, 5))
    technique = get_technique("matmul_precision")
    assert technique.unavailable(msgspec.structs.replace(environment, device=old)) == reason
    capability(monkeypatch, 9, 0)
    torch.set_float32_matmul_precision("high")
    try:
        assert refusal_of(on_device(), "matmul_precision") == "the precision is high already"
    finally:
        torch.set_float32_matmul_precision("highest")


def optimizer(kind: Callable[..., Any], **options: Any) -> Callable[[Pipeline], None]:
    def put(pipeline: Pipeline) -> None:
        pipeline.optimizers = [kind(pipeline.model.parameters(), lr=0.1, **options)]

    return put


def scheduler(make: Callable[[Any], Any]) -> Callable[[Pipeline], None]:
    def put(pipeline: Pipeline) -> None:
        pipeline.schedulers = [make(pipeline.optimizers[0])]

    return put


def scaler(pipeline: Pipeline) -> None:
    pipeline.scaler = torch.amp.GradScaler("cpu")


def another_step(pipeline: Pipeline) -> None:
    pipeline.step = lambda batch: torch.zeros(())


NOT_CAPTURED: dict[str, tuple[list[Callable[[Pipeline], None]], str]] = {
    "SGD": ([optimizer(torch.optim.SGD)], "SGD cannot be captured unless it is fused"),
    "Adagrad": ([optimizer(torch.optim.Adagrad)], "Adagrad cannot be captured unless it is fused"),
    "LBFGS": ([optimizer(torch.optim.LBFGS)], "LBFGS cannot be captured"),
    "a scaler": ([scaler], "the scaler waits for the device before a AdamW that is not fused"),
    "OneCycleLR": (
        [scheduler(lambda each: OneCycleLR(each, 0.1, total_steps=9))],
        "OneCycleLR moves the momentum too, which a graph bakes in (cycle_momentum=False)",
    ),
    "CyclicLR": (
        [
            optimizer(torch.optim.SGD, fused=True, momentum=0.9),
            scheduler(lambda each: CyclicLR(each, 0.1, 0.2)),
        ],
        "CyclicLR moves the momentum too, which a graph bakes in (cycle_momentum=False)",
    ),
    "RMSprop with a scheduler": (
        [optimizer(torch.optim.RMSprop), scheduler(lambda each: StepLR(each, 1))],
        "a scheduler moves the rate of RMSprop, which takes none from the device",
    ),
    "another step": (
        [another_step],
        "another technique has put a step of its own in the place of the plain one",
    ),
}


@pytest.mark.parametrize("case", NOT_CAPTURED)
def test_what_a_graph_cannot_hold_is_refused_with_the_reason(case: str) -> None:
    pipeline = on_device()
    changes, reason = NOT_CAPTURED[case]
    for change in changes:
        change(pipeline)
    flags = [dict(group, params=None) for group in pipeline.optimizers[0].param_groups]
    step = pipeline.step
    assert refusal_of(pipeline, "whole_step_graph") == reason
    assert pipeline.step is step
    assert [dict(group, params=None) for group in pipeline.optimizers[0].param_groups] == flags


@pytest.mark.parametrize(("free", "fits"), [(10_000, True), (100, False)])
def test_data_that_does_not_fit_stays_where_it_is(
    monkeypatch: pytest.MonkeyPatch, free: int, fits: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, free))
    monkeypatch.setattr(
        "hasten.techniques.resident_data.ResidentLoader", lambda loader, device: loader
    )
    pipeline = on_device()
    if fits:
        assert apply(pipeline, "resident_data").words() == "0 MiB of rows on cuda"
    else:
        assert refusal_of(pipeline, "resident_data") == (
            "its 0 MiB are more than 40% of the 0 MiB that are free on the device"
        )


def test_a_loop_that_keeps_its_own_loader_has_nothing_to_overlap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    pipeline = on_device()
    pipeline.loader = ()
    assert refusal_of(pipeline, "overlapped_transfer") == "the loop keeps its own loader"


def test_late_readings_are_of_no_use_on_a_cpu() -> None:
    technique = get_technique("late_readings")
    environment = read_environment()
    cpu = msgspec.structs.replace(environment.device, kind="cpu")
    gpu = msgspec.structs.replace(environment.device, kind="cuda")
    assert technique.unavailable(msgspec.structs.replace(environment, device=cpu)) == (
        "on the CPU nothing is waited for"
    )
    assert technique.unavailable(msgspec.structs.replace(environment, device=gpu)) is None
