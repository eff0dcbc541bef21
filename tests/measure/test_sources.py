"""Files of the user's own that a task imports are known by their content, and no others."""

import sys
from pathlib import Path

import pytest

from hasten.measure.lab import Lab
from hasten.measure.sources import own_sources

TASK = """\
import torch
from losses_of_my_own import loss
import hasten

def make_task():
    data = torch.randn(32, 4), torch.randn(32, 1)
    optimizer = lambda parameters: torch.optim.SGD(parameters, lr=0.1)
    return hasten.Task(
        model=torch.nn.Linear(4, 1), data=data, loss=loss, optimizer=optimizer, batch_size=8
    )
"""


def test_what_a_task_imports_is_among_them_and_what_is_installed_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, losses = tmp_path / "train.py", tmp_path / "losses_of_my_own.py"
    task.write_text(TASK)
    losses.write_text("from torch.nn.functional import mse_loss as loss\n")
    monkeypatch.chdir(tmp_path)

    def described() -> dict[str, str]:
        with Lab("train.py:make_task", seed=0) as lab:
            return lab.describe().sources

    first = described()
    assert first.keys() == {str(task), str(losses)}
    losses.write_text("from torch.nn.functional import l1_loss as loss\n")
    second = described()
    assert second[str(task)] == first[str(task)]
    assert second[str(losses)] != first[str(losses)]


def test_a_file_that_is_gone_and_a_module_without_one_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = type(sys)("gone_since")
    gone.__file__ = str(tmp_path / "gone.py")
    monkeypatch.setitem(sys.modules, "gone_since", gone)
    monkeypatch.setitem(sys.modules, "made_up", type(sys)("made_up"))
    assert str(tmp_path / "gone.py") not in own_sources()
    assert __file__ in own_sources()
