"""Regions of the user's own code, as they are told."""

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

import hasten
from hasten.errors import HastenError
from hasten.monitor import regions


class Collected(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        told = json.loads(record.getMessage())
        assert told == record.region  # type: ignore[attr-defined]
        assert "\n" not in record.getMessage()
        self.told.append(told)

    def paths(self) -> list[str]:
        return [each["path"] for each in self.told]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collected]:
    monkeypatch.setattr(regions, "_counts", {})
    logger, handler = logging.getLogger("hasten.profiled"), Collected()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.setLevel(logging.NOTSET)
    logger.removeHandler(handler)
    assert regions._innermost.get() is None


def test_a_block_is_one_line_with_all_that_is_known_of_it(log: Collected) -> None:
    with hasten.profiled("load"):
        pass
    (told,) = log.told
    assert told.pop("seconds") >= 0
    assert told == {
        "name": "load",
        "path": "load",
        "count": 1,
        "thread": "MainThread",
        "process": os.getpid(),
        "error": None,
    }


def test_a_function_keeps_its_face_and_what_it_returns(log: Collected) -> None:
    @hasten.profiled("add")
    def add(one: int, *, other: int = 1) -> int:
        """Adds."""
        return one + other

    assert add(2, other=3) == 5
    assert add(2) == 3
    assert (add.__name__, add.__doc__) == ("add", "Adds.")
    assert [each["count"] for each in log.told] == [1, 2]


def test_a_method_is_timed_as_a_function_is(log: Collected) -> None:
    class Loader:
        rows = 3

        @hasten.profiled("rows")
        def read(self) -> int:
            return self.rows

        @classmethod
        @hasten.profiled("class")
        def of_the_class(cls) -> str:
            return cls.__name__

    assert (Loader().read(), Loader.of_the_class()) == (3, "Loader")
    assert log.paths() == ["rows", "class"]


def test_a_region_within_another_has_its_path_and_ends_first(log: Collected) -> None:
    with hasten.profiled("step"):
        with hasten.profiled("forward"), hasten.profiled("attention"):
            pass
        with hasten.profiled("backward"):
            pass
    assert log.paths() == ["step/forward/attention", "step/forward", "step/backward", "step"]
    seconds = {each["path"]: each["seconds"] for each in log.told}
    assert seconds["step"] >= seconds["step/forward"] + seconds["step/backward"]


def test_one_that_a_waiting_generator_left_open_takes_no_other_with_it(log: Collected) -> None:
    def batches() -> Iterator[int]:
        for number in range(2):
            with hasten.profiled("augment"):
                yield number

    source = batches()
    with hasten.profiled("epoch"):
        next(source)
    with hasten.profiled("after"):
        pass
    assert log.paths() == ["epoch", "after"]
    source.close()


def test_a_function_that_calls_itself_nests_in_itself(log: Collected) -> None:
    @hasten.profiled("down")
    def down(depth: int) -> int:
        return down(depth - 1) + 1 if depth else 0

    assert down(2) == 2
    assert log.paths() == ["down/down/down", "down/down", "down"]


def test_an_exception_is_told_by_its_kind_and_goes_on_unchanged(log: Collected) -> None:
    error = ArithmeticError("of the user's own")
    with pytest.raises(ArithmeticError) as caught, hasten.profiled("bad"):
        raise error
    assert caught.value is error
    with hasten.profiled("good"):
        pass
    assert [(each["path"], each["error"]) for each in log.told] == [
        ("bad", "ArithmeticError"),
        ("good", None),
    ]


def test_threads_do_not_mix_and_lose_no_count(log: Collected) -> None:
    region, together = hasten.profiled("shared"), threading.Barrier(4)

    def work() -> None:
        together.wait()
        for _ in range(50):
            with region, hasten.profiled("inner"):
                pass

    with hasten.profiled("main"), ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(work) for _ in range(4)]:
            each.result()
    assert set(log.paths()) == {"shared/inner", "shared", "main"}
    counts = sorted(each["count"] for each in log.told if each["path"] == "shared")
    assert counts == list(range(1, 201))
    assert len({each["thread"] for each in log.told}) == 5


def test_a_coroutine_is_timed_until_it_is_done_and_tasks_do_not_mix(log: Collected) -> None:
    @hasten.profiled("fetch")
    async def fetch(value: int) -> int:
        await asyncio.sleep(0)
        with hasten.profiled("parse"):
            await asyncio.sleep(0)
        return value

    async def both() -> list[int]:
        with hasten.profiled("all"):
            return await asyncio.gather(fetch(1), fetch(2))

    assert asyncio.run(both()) == [1, 2]
    assert sorted(log.paths()) == ["all", *["all/fetch"] * 2, *["all/fetch/parse"] * 2]


def test_a_generator_is_refused_with_a_way_out() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    with pytest.raises(HastenError, match=r"numbers: a generator runs in pieces") as caught:
        hasten.profiled("numbers")(numbers)
    assert "with form" in caught.value.fix


@pytest.mark.parametrize("name", ["", None, len])
def test_a_region_needs_a_name(name: Any) -> None:
    with pytest.raises(HastenError, match=re.escape(f"profiled({name!r})")):
        hasten.profiled(name)


def test_nothing_is_told_or_kept_while_it_is_off(log: Collected) -> None:
    logging.getLogger("hasten.profiled").setLevel(logging.WARNING)
    with hasten.profiled("quiet"):
        assert regions._innermost.get() is None
    assert log.told == []
    assert regions._counts == {}


@pytest.mark.parametrize("first", [logging.INFO, logging.WARNING])
def test_switching_within_a_region_breaks_nothing(log: Collected, first: int) -> None:
    logger = logging.getLogger("hasten.profiled")
    logger.setLevel(first)
    with hasten.profiled("outer"):
        logger.setLevel(logging.INFO + logging.WARNING - first)
        with hasten.profiled("inner"):
            pass
    logger.setLevel(logging.INFO)
    with hasten.profiled("next"):
        pass
    assert log.paths()[-1] == "next"


def test_a_torch_profiler_has_it_as_a_range_without_a_line_in_the_log() -> None:
    @hasten.profiled("step")
    def step() -> None:
        with hasten.profiled("forward"):
            torch.ones(2) + 1

    assert not logging.getLogger("hasten.profiled").isEnabledFor(logging.INFO)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        step()
    assert {"step", "step/forward", "aten::add"} <= {event.name for event in profile.events()}


def test_it_is_off_by_default_and_imports_no_torch() -> None:
    code = """
import logging, sys, hasten
with hasten.profiled("quiet"): pass
logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.INFO)
with hasten.profiled("told"): pass
assert "torch" not in sys.modules
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert [json.loads(line)["path"] for line in done.stdout.splitlines()] == ["told"]
    assert done.stderr == ""


@pytest.mark.parametrize("level", [logging.NOTSET, logging.INFO])
def test_a_region_does_not_break_what_is_compiled(log: Collected, level: int) -> None:
    graphs = []

    def backend(module: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
        graphs.append(module)
        return module

    @hasten.profiled("double")
    def double(values: torch.Tensor) -> torch.Tensor:
        with hasten.profiled("inner"):
            return values.sin() * 2

    logging.getLogger("hasten.profiled").setLevel(level)
    compiled = torch.compile(double, backend=backend, fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), torch.ones(2).sin() * 2)
    assert len(graphs) == 1
    assert log.told == []
