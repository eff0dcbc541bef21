"""``hasten_bench``, a pytest fixture: performance tests of a project of your own.

pytest loads this in every project where Hasten is installed. It does nothing, and imports nothing
heavy, unless a test asks for the fixture.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pytest

if TYPE_CHECKING:
    from hasten.records.report import BenchReport
    from hasten.records.saved_bench import GateReport

T = TypeVar("T")
WIDTH = 100


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("hasten").addoption(
        "--hasten-save",
        action="store_true",
        help="hasten_bench saves the speeds that later runs are held against.",
    )


@pytest.fixture
def hasten_bench(request: pytest.FixtureRequest) -> "Callable[..., Bench]":
    """``hasten_bench(TASK, *arms)``, named as for ``hasten bench``."""
    if hasattr(request.config, "workerinput"):
        pytest.skip("times taken beside other tests mean nothing: run this without -n")
    saving = bool(request.config.getoption("--hasten-save"))

    def make(task: str, *arms: str, seed: int = 0) -> Bench:
        return Bench(task, arms, seed=seed, saving=saving)

    return make


class Bench:
    """One question about speed. What is proven slow fails; what cannot be told is skipped."""

    def __init__(self, task: str, arms: tuple[str, ...], *, seed: int, saving: bool) -> None:
        self._task, self._arms = task, arms
        self._seed, self._saving = seed, saving

    def against(self, path: str | Path) -> "GateReport":
        """No slower than when the file was saved, which ``pytest --hasten-save`` does."""
        from hasten.report.bench import gate_card
        from hasten.tune import gate

        file = Path(path)
        if self._saving:
            self._ask(lambda: gate.save(self._task, self._arms, file, **self._how()))
            pytest.skip(f"saved {file}: nothing was compared")
        if not file.exists():
            _fail(f"There is no {file}. Run pytest --hasten-save once, and keep the file.")
        report = self._ask(lambda: gate.against(self._task, self._arms, file, **self._how()))
        _judge(report.change.decision, ("slower",), gate_card(report))
        return report

    def is_not_slower(self) -> "BenchReport":
        """The second arm is not proven slower than the first."""
        return self._compare("slower")

    def is_faster(self) -> "BenchReport":
        """The second arm is proven faster than the first."""
        return self._compare("slower", "same")

    def _compare(self, *bad: str) -> "BenchReport":
        from hasten.report.bench import bench_card
        from hasten.tune.bench import bench

        if len(self._arms) != 2:
            _fail(f"Two arms are compared, and these are {len(self._arms)}: {self._arms}.")
        a, b = self._arms
        report = self._ask(lambda: bench(self._task, a, b, **self._how()))
        _judge(report.outcome, bad, bench_card(report))
        return report

    def _how(self) -> dict[str, Any]:
        return {"seed": self._seed, "tell": lambda message: None}

    def _ask(self, question: Callable[[], T]) -> T:
        """A fault is told as the command tells it, without our own lines."""
        from hasten.errors import HastenError

        try:
            return question()
        except HastenError as error:
            _fail("\n".join(filter(None, [error.detail, f"error: {error.what}", error.fix])))


def _judge(decision: str, bad: tuple[str, ...], card: Any) -> None:
    if decision in bad:
        _fail(_plain(card))
    if decision == "undecided":
        pytest.skip(_plain(card))


def _fail(words: str) -> NoReturn:
    pytest.fail(words, pytrace=False)


def _plain(card: Any) -> str:
    from rich.console import Console

    console = Console(width=WIDTH, highlight=False, no_color=True)
    with console.capture() as capture:
        console.print(card)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())
