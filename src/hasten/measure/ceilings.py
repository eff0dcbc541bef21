"""The most that this machine does, measured now.

Method: a large matrix product in each type that the device computes well, a large copy, and many
of the smallest operations one after the other; each repeated for a fraction of a second, the best
counts. About two seconds in all.

Limits: the best of what was tried, not of what is possible: another shape or library may do a
little better. What else runs on the machine lowers it, as it lowers the training's own figures.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from hasten.host.environment import read_environment
from hasten.measure.marks import wait_for
from hasten.records.profile import Ceilings

EACH_S = 0.25
FEWEST = 3
SIDE = {"cuda": 8192, "cpu": 1024}
"""Of the matrices: large enough for the full rate, small enough to be repeated."""
COPIED_BYTES = {"cuda": 1 << 30, "cpu": 1 << 28}
"""Larger than the caches."""
LAUNCHES = 500
TYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp64": torch.float64,
}
TF32_FROM = (8, 0)
"""The compute capability of the first devices that have it."""


def measure_ceilings(device: torch.device) -> Ceilings:
    return Ceilings(
        flops_per_s={name: _product_rate(device, name) for name in types_of(device)},
        bytes_per_s=_copy_rate(device),
        launch_s=_launch_s(device),
    )


def types_of(device: torch.device) -> list[str]:
    """Those that it has instructions for; a CPU without them computes bf16, and slowly."""
    known = read_environment().device
    if device.type == "cpu":
        return ["fp32", "fp64", *(["bf16"] if known.kind == "cpu" and known.bf16 else [])]
    tf32 = device.type == "cuda" and known.capability >= TF32_FROM
    return ["fp32", "fp64", "fp16", *(["tf32"] if tf32 else []), *(["bf16"] if known.bf16 else [])]


def _product_rate(device: torch.device, name: str) -> float:
    side = SIDE.get(device.type, SIDE["cpu"])
    if name == "fp64":  # which many devices have few units for
        side //= 2
    # Not ones: a product of equal numbers takes less power, and runs at a higher clock.
    shape = (side, side)
    a, b, out = (torch.randn(shape, device=device).to(TYPES[name]) for _ in range(3))
    with _fp32_products_in("tf32" if name == "tf32" else "ieee"):
        seconds = best_s(lambda: torch.mm(a, b, out=out), device)
    return float(2 * side**3 / seconds)


def _copy_rate(device: torch.device) -> float:
    size = COPIED_BYTES.get(device.type, COPIED_BYTES["cpu"])
    one, other = (torch.ones(size, dtype=torch.uint8, device=device) for _ in range(2))
    return 2 * size / best_s(lambda: one.copy_(other), device)


def _launch_s(device: torch.device) -> float:
    number = torch.zeros(1, device=device)

    def launch_many() -> None:
        for _ in range(LAUNCHES):
            number.add_(1)

    return best_s(launch_many, device) / LAUNCHES


def best_s(work: Callable[[], Any], device: torch.device) -> float:
    """The shortest time that it took, until the device was done."""
    work()
    wait_for(device)
    times: list[float] = []
    until = time.perf_counter() + EACH_S
    while len(times) < FEWEST or time.perf_counter() < until:
        start = time.perf_counter()
        work()
        wait_for(device)
        times.append(time.perf_counter() - start)
    return min(times)


@contextmanager
def _fp32_products_in(precision: str) -> Iterator[None]:
    matmul: Any = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = precision
    try:
        yield
    finally:
        matmul.fp32_precision = before
