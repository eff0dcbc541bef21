"""A training that is killed and resumed ends with the bits of one that never was."""

import random
import signal
from pathlib import Path

import processes
import pytest
from processes import KilledAt, bits_at, run, same_bits

from hasten.checkpoint.store import Store

STEPS = 100
KILLS = sorted(random.Random(7).sample(range(2, STEPS - 40), 20))
FEW = KILLS[::4]
"""Of which a change has to pass; the others run with the long tests."""


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    assert run(processes.train, "make_task", folder, steps=STEPS, checkpoint_every=7) == 0
    return folder


@pytest.mark.parametrize(
    "step",
    [*FEW, *(pytest.param(each, marks=pytest.mark.long) for each in KILLS if each not in FEW)],
)
def test_killed_at_any_step_and_resumed_it_ends_with_the_same_bits(
    step: int, uninterrupted: Path, tmp_path: Path
) -> None:
    options = {"steps": STEPS, "checkpoint_every": 7}
    sinks = [KilledAt(step, saved=True)]
    code = run(processes.train, "make_task", tmp_path, sinks=sinks, **options)
    assert code == -signal.SIGKILL
    assert Store(tmp_path).steps()
    assert run(processes.train, "make_task", tmp_path, resume=True, **options) == 0
    assert same_bits(bits_at(tmp_path, STEPS), bits_at(uninterrupted, STEPS))
