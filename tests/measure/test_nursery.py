"""Workers that are forked: as fresh as others, and gone with what they were forked from."""

import sys
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

from hasten.errors import HastenError
from hasten.measure import messages
from hasten.measure.lab import Lab
from hasten.measure.nursery import Forked, Nursery
from hasten.measure.worker import Worker, WorkerFailure
from hasten.records.plan import NAIVE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")
PLANTED = Path(__file__).parents[1] / "tasks" / "planted.py"
TASK = f"{PLANTED}:small"


LEAVING_A_MARK = """
import builtins
builtins.mark = getattr(builtins, "mark", 0) + 1
print("the mark is", builtins.mark, flush=True)
from planted import small
"""


def test_none_finds_what_the_code_of_another_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "marking.py").write_text(LEAVING_A_MARK)
    monkeypatch.setenv("PYTHONPATH", str(PLANTED.parent), prepend=":")
    with Lab(f"{tmp_path}/marking.py:small", seed=0) as lab:
        for _ in range(2):
            worker = lab.worker()
            worker.ask(lab.start(NAIVE), messages.Started)
            assert worker.log_tail() == "the mark is 1"


def test_only_those_that_are_started_anew_differ_in_the_order_of_sets(tmp_path: Path) -> None:
    """Which is why what is claimed is measured in these."""
    (tmp_path / "hashing.py").write_text("print(hash('a'), flush=True)\nsmall = None")
    with Lab(f"{tmp_path}/hashing.py:small", seed=0) as lab:
        told = []
        for anew in (False, False, True):
            worker = lab.worker(anew=anew)
            with pytest.raises(WorkerFailure, match="small"):
                worker.ask(lab.start(NAIVE), messages.Started)
            told.append(worker.log_tail())
    assert told[0] == told[1] != told[2]


def test_a_worker_is_in_a_group_of_its_own_from_the_start(tmp_path: Path) -> None:
    nursery = Nursery(tmp_path / "nursery.log")
    workers = [Worker(tmp_path / f"log-{number}", nursery) for number in range(2)]
    first, second = (psutil.Process(each.pid) for each in workers)
    workers[0].close()
    assert not first.is_running()
    assert second.is_running()
    assert workers[1].ask(messages.Describe(task=TASK, seed=0), messages.Described)
    workers[1].close()
    nursery.close()


def test_all_that_was_forked_ends_with_it(tmp_path: Path) -> None:
    nursery = Nursery(tmp_path / "nursery.log")
    worker = Worker(tmp_path / "log", nursery)
    process = psutil.Process(worker.pid)
    nursery.close()
    _, alive = psutil.wait_procs([process], timeout=20)
    assert not alive
    with pytest.raises(WorkerFailure, match="signal 9"):
        worker.ask(messages.Describe(task=TASK, seed=0), messages.Described)
    worker.close()


def test_one_that_is_killed_is_replaced_and_its_workers_are_said_to_have_failed() -> None:
    with Lab(TASK, seed=0) as lab:
        lab.describe()
        worker = lab.worker()
        nursery = lab._nursery
        assert nursery is not None
        nursery._process.kill()
        nursery._process.wait()  # its workers end with it, which may take it a moment
        with pytest.raises(WorkerFailure, match="signal 9"):
            worker.ask(lab.start(NAIVE), messages.Started)
        assert lab.describe().traits.model.parameters == 676
        assert nursery._socket.fileno() == -1, "nothing of the old one is left open"


def test_one_that_is_interrupted_answers_nobody_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next one would get the answer to another's question."""

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    nursery = Nursery(tmp_path / "nursery.log")
    before = psutil.Process().num_fds()
    with monkeypatch.context() as patched:
        patched.setattr("hasten.measure.nursery.select.select", interrupt)
        with pytest.raises(KeyboardInterrupt):
            Worker(tmp_path / "log", nursery)
    assert nursery.has_ended
    with pytest.raises(HastenError, match=r"has ended \(signal 9\)"):
        Worker(tmp_path / "log", nursery)
    assert psutil.Process().num_fds() < before


SETTING_A_VARIABLE = """
import os
os.environ["TORCH_COMPILE_DISABLE"] = "1"
from planted import small
"""


def test_a_task_that_sets_variables_is_run_in_processes_that_are_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be read while what others would have loaded is loaded."""
    (tmp_path / "setting.py").write_text(SETTING_A_VARIABLE)
    monkeypatch.setenv("PYTHONPATH", str(PLANTED.parent), prepend=":")
    for task, forked in ((f"{tmp_path}/setting.py:small", False), (TASK, True)):
        with Lab(task, seed=0) as lab:
            lab.describe()
            assert isinstance(lab.worker()._process, Forked) is forked


def test_one_that_cannot_load_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch of this kind')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    with (
        Lab(TASK, seed=0) as lab,
        pytest.raises(HastenError, match=r"has ended \(exit code 1\)") as caught,
    ):
        lab.describe()
    assert "no torch of this kind" in caught.value.detail
