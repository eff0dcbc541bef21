"""Builders that map over parts: in processes, in order, with their own errors, leaving none."""

import io
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from rich.console import Console

from hasten.data import BuildingBar, DatasetCache
from hasten.errors import HastenError
from tasks import parts

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cache(tmp_path: Path) -> DatasetCache:
    return DatasetCache(tmp_path / "cache")


def test_parts_are_built_in_processes_and_joined_in_order(cache: DatasetCache) -> None:
    told: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        told.append((done, total))

    for _ in range(2):
        found = cache.build_parts(parts.table, [3, 1, 0, 2], workers=2, progress=progress)
        assert found["numbers"].tolist() == [0, 1, 2, 0, 0, 1]
        assert found["texts"] == ["3", "3", "3", "1", "2", "2"]
        assert os.getpid() not in found["pid"]
        assert len(found["pid"]) == 4
    assert told == [(done, 4) for done in range(5)]  # the second time there was nothing to build


def test_the_number_of_workers_is_no_part_of_the_result_or_its_key(cache: DatasetCache) -> None:
    here = cache.build_parts(parts.rows, range(4), 3, workers=1)
    elsewhere = DatasetCache(cache.folder / "other").build_parts(parts.rows, range(4), 3, workers=2)
    assert here.tolist() == elsewhere.tolist() == [[1] * 3, [2] * 3, [2] * 3, *[[3] * 3] * 3]
    calls: list[int] = []
    cache.build_parts(parts.rows, range(4), 3, workers=2, progress=lambda *told: calls.append(1))
    assert calls == []


def test_without_joining_the_results_are_a_list(cache: DatasetCache) -> None:
    found = cache.build_parts(parts.rows, [1, 2], join=False, workers=1)
    assert [each.shape for each in found] == [(1, 2), (2, 2)]
    assert cache.build_parts(parts.rows, []) == []


def test_what_cannot_be_joined_is_refused(cache: DatasetCache) -> None:
    with pytest.raises(HastenError, match=r"cannot be joined: int\.") as error:
        cache.build_parts(parts.failing, [1, 2], workers=1)
    assert "join=False" in error.value.fix


def test_a_part_that_fails_is_told_with_its_traceback(cache: DatasetCache) -> None:
    with pytest.raises(HastenError, match=r"Part 2 \(3\) was not built: LookupError") as error:
        cache.build_parts(parts.failing, [1, 2, 3, 4], join=False, workers=2)
    assert 'raise LookupError("no such row")' in error.value.detail
    assert not list(cache.folder.rglob("manifest.json"))


def test_a_process_that_is_killed_is_told_with_its_part(cache: DatasetCache) -> None:
    with pytest.raises(HastenError, match=r"Part 1 \(3\) was not built: .* by SIGKILL"):
        cache.build_parts(parts.dying, [1, 3], join=False, workers=2)


def test_a_result_that_cannot_be_sent_is_told(cache: DatasetCache) -> None:
    with pytest.raises(HastenError, match=r"Part [01] .*[Pp]ickle"):
        cache.build_parts(parts.unsendable, [1, 2], workers=2)


def test_parts_that_draw_from_a_global_generator_are_not_kept(cache: DatasetCache) -> None:
    with pytest.warns(RuntimeWarning, match="tasks.parts.drawing drew .* not kept"):
        cache.build_parts(parts.drawing, [1, 2], join=False, workers=2)


def test_a_function_without_a_name_is_built_here_and_that_is_said(cache: DatasetCache) -> None:
    with pytest.warns(RuntimeWarning, match="built in this process: it cannot be sent"):
        found = cache.build_parts(lambda part: np.full(part, os.getpid()), [1, 2], workers=2)
    assert set(found.tolist()) == {os.getpid()}


SCRIPT = """
import sys
import numpy as np
from hasten.data import DatasetCache

def build(part):
    return np.full(part, part)

print(DatasetCache(sys.argv[1]).build_parts(build, [1, 2], workers=2).tolist())
"""
ENDLESS = """
import sys
from hasten.data import DatasetCache
from tasks import parts

DatasetCache(sys.argv[1]).build_parts(parts.endless, [1, 2], sys.argv[2], workers=2)
"""


def start(code: str, *arguments: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_function_of_the_script_is_built_here_and_that_is_said(tmp_path: Path) -> None:
    out, errors = start(SCRIPT, tmp_path / "cache").communicate(timeout=60)
    assert out.strip() == "[1, 2, 2]"
    assert "put it into a module" in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_one_that_builds(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "pids"
    folder.mkdir()
    parent = start(ENDLESS, tmp_path / "cache", folder / "pid-")
    ends = time.monotonic() + 60
    while len(list(folder.iterdir())) < 2:
        assert time.monotonic() < ends
        assert parent.poll() is None, parent.communicate()[1]
        time.sleep(0.05)
    pids = [int(each.name.removeprefix("pid-")) for each in folder.iterdir()]
    parent.send_signal(number)
    parent.communicate(timeout=30)
    ends = time.monotonic() + 20
    while any(psutil.pid_exists(pid) for pid in pids):
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_a_module_where_one_happens_to_be_is_not_run(
    cache: DatasetCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pickle.py").write_text("raise SystemExit('not what was meant')")
    monkeypatch.chdir(tmp_path)
    assert cache.build_parts(parts.rows, [1, 2], 1, workers=2).tolist() == [[1], [2], [2]]


def test_a_bar_on_a_terminal_and_lines_elsewhere() -> None:
    def shown(**options: Any) -> str:
        console = Console(file=io.StringIO(), width=80, **options)
        with BuildingBar("tokens <b>\x1b[2J", console) as progress:
            for done in range(4):
                progress(done, 3)
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue()

    assert shown() == "tokens <b>?[2J: 0 of 3\ntokens <b>?[2J: 3 of 3\n"
    bar = shown(force_terminal=True)
    assert "3/3" in bar
    assert "\x1b[2J" not in bar


def test_nothing_is_said_where_all_is_well(cache: DatasetCache) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.build_parts(parts.rows, [1, 2], workers=2)
