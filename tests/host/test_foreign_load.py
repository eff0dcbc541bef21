"""What others take of the machine: their work is counted, ours is not."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hasten.host import load as loads
from hasten.host.cores import throttled_s
from hasten.host.load import LoadMeter
from hasten.records.load import DeviceLoad, Load


class Machine:
    """Two cores, and what has run on them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.busy_s = [10.0, 20.0]
        self.own_s = 3.0
        self.now = 100.0
        monkeypatch.setattr(loads, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
        monkeypatch.setattr(loads.psutil, "cpu_times", self._cpu_times)
        monkeypatch.setattr(loads.psutil, "Process", self._process)

    def _cpu_times(self, percpu: bool) -> list[object]:
        class Times(tuple):  # type: ignore[type-arg]
            idle = 1000.0

        return [Times((busy, 1000.0)) for busy in (*self.busy_s, 99.0)]

    def _process(self, number: int) -> object:
        times = (self.own_s, 0.0, 0.0, 0.0)
        return SimpleNamespace(pid=number, cpu_times=lambda: times, children=lambda recursive: [])


def test_what_the_cores_did_beyond_our_own_work_is_others(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    meter = LoadMeter([])
    machine.now += 10
    machine.busy_s = [20.0, 25.0]  # fifteen seconds in all
    machine.own_s += 5
    found = meter.read()
    assert found.others_cores == pytest.approx(1.0)
    assert found.cores == 2
    assert found.disturbance() == "other programs kept 1.0 of 2 cores busy"


def test_our_own_work_is_no_disturbance(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    meter = LoadMeter([])
    machine.now += 10
    machine.busy_s = [20.0, 30.0]
    machine.own_s += 20
    assert meter.read().others_cores == 0
    assert meter.read().disturbance() is None


def test_a_worker_is_counted_once_though_it_is_our_child_too() -> None:
    code = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    worker = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert worker.stdout is not None
    worker.stdout.readline()
    try:
        ran = LoadMeter([worker.pid])._own_s()
        assert ran == pytest.approx(LoadMeter([])._own_s(), abs=0.2)
    finally:
        worker.communicate(b"\n")


def test_a_process_that_has_ended_is_passed_over() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert LoadMeter([process.pid]).read().others_cores >= 0


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [("cpu.stat", "throttled_usec 2500000", 2.5), ("cpu.stat", "throttled_time 1500000000", 1.5)],
)
def test_time_lost_to_a_quota_is_read_in_both_versions(
    name: str, line: str, expected: float, tmp_path: Path
) -> None:
    groups = tmp_path / "groups"
    groups.write_text("0::/\n")
    (tmp_path / name).write_text(f"nr_periods 5\n{line}\n")
    assert throttled_s(tmp_path, groups) == pytest.approx(expected)


def test_without_a_quota_nothing_was_lost(tmp_path: Path) -> None:
    assert throttled_s(tmp_path, tmp_path / "none") == 0


def test_every_disturbance_is_told() -> None:
    device = DeviceLoad(lowest_mhz=900, highest_mhz=1900, slowed_by=("heat", "power"))
    words = Load(cores=4, others_cores=2.0, throttled_s=1.0, device=device).disturbance()
    assert words is not None
    for expected in ("2.0 of 4 cores", "held it back for 1.0 s", "heat, power"):
        assert expected in words
