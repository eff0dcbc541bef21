"""What does not fit is refused with what to do, before any work, and nothing is overwritten."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import processes
import pytest
import torch
from processes import bits_at, run, same_bits, task
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

from hasten.checkpoint.store import Store
from hasten.errors import HastenError
from hasten.records.plan import NAIVE
from hasten.task.task import Metric, Task
from hasten.train.every import Every
from hasten.train.fit import fit

PLAIN = task("make_task_without_workers")


def content_of(folder: Path) -> dict[str, bytes]:
    """All but the lock, which a writer takes."""
    files = [each for each in folder.rglob("*") if each.is_file() and each.name != ".lock"]
    return {str(each.relative_to(folder)): each.read_bytes() for each in files}


@pytest.fixture(scope="module")
def _trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    options = {"steps": 30, "checkpoint_every": 10}
    name = "make_task_without_workers"
    assert run(processes.train, name, folder, NAIVE, **options) == 0
    return folder


@pytest.fixture
def trained(_trained: Path, tmp_path: Path) -> Path:
    """A copy of its own for each test."""
    for name, content in content_of(_trained).items():
        path = tmp_path / "run" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "run"


def make_task(**changes: Any) -> Task:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(12, 16), nn.LayerNorm(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3)
    )
    given: dict[str, Any] = {
        "model": model,
        "data": (torch.randn(203, 12), torch.randint(0, 3, (203,))),
        "loss": F.cross_entropy,
        "optimizer": lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
        "batch_size": 8,
        "scheduler": lambda optimizer: CosineAnnealingLR(optimizer, 100),
    }
    return Task(**{**given, **changes})


def refusal_of(folder: Path, what: Task | str, **options: Any) -> HastenError:
    before = content_of(folder) if folder.is_dir() else {}
    with pytest.raises(HastenError) as error:
        fit(what, **{"steps": 40, "checkpoint_dir": folder, "resume": True, **options})
    assert error.value.fix
    assert (content_of(folder) if folder.is_dir() else {}) == before
    return error.value


def test_a_folder_that_holds_a_training_is_not_written_over(trained: Path) -> None:
    error = refusal_of(trained, PLAIN, resume=False)
    assert error.what == f"{trained} holds a training already, up to step 30."
    assert "--resume" in error.fix


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (
            lambda: make_task(model=nn.Linear(12, 3)),
            "its model has float32[16] at 0.bias, and this one nothing",
        ),
        (
            lambda: make_task(optimizer=lambda p: torch.optim.SGD(p, lr=0.1)),
            "it was trained by AdamW of 6 weights, and this is SGD of 6 weights",
        ),
        (
            lambda: make_task(optimizer=lambda p: torch.optim.AdamW([*p][:4], lr=1e-2)),
            "it was trained by AdamW of 6 weights, and this is AdamW of 4 weights",
        ),
        (
            lambda: make_task(scheduler=None),
            "its schedulers are CosineAnnealingLR, and these none",
        ),
        (
            lambda: make_task(batch_size=16),
            "its epochs have 26 batches, and these 13",
        ),
        (
            lambda: make_task(data=(torch.randn(50, 12), torch.randint(0, 3, (50,))), batch_size=8),
            "its epochs have 26 batches, and these 7",
        ),
    ],
)
def test_another_training_is_told_from_this(
    make: Callable[[], Task], why: str, trained: Path
) -> None:
    error = refusal_of(trained, make())
    assert error.what == f"{trained / 'step-00000030'} is not a checkpoint of this training: {why}."


def test_another_task_is_told_by_its_name(trained: Path) -> None:
    error = refusal_of(trained, "gallery:bloom")
    assert f"it is of the task {PLAIN}, and this is gallery:bloom" in error.what


def test_a_task_may_be_named_from_another_folder(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(PLAIN.rpartition(":")[0])
    monkeypatch.chdir(path.parent)
    name = f"{path.name}:make_task_without_workers"
    assert fit(name, steps=31, checkpoint_dir=trained, resume=True).step == 31


def test_other_data_is_noticed_by_the_last_batch(trained: Path) -> None:
    error = refusal_of(trained, make_task())
    assert "batch 4 of the epoch is another one now" in error.what


def test_another_seed_is_refused(trained: Path) -> None:
    error = refusal_of(trained, PLAIN, seed=7)
    assert error.what.startswith("seed=7 is not the 0 that ")


def test_an_older_formats_checkpoint_is_refused(trained: Path) -> None:
    for path in trained.glob("step-*/manifest.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "format": 0}))
    error = refusal_of(trained, PLAIN)
    assert "format 0" in error.what


def test_an_empty_folder_and_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("mine")
    assert "holds no complete checkpoint" in refusal_of(tmp_path / "empty", PLAIN).what
    for resume in (True, False):
        error = refusal_of(tmp_path / "file", PLAIN, resume=resume)
        assert str(tmp_path / "file") in error.what
    assert "There is no folder" in refusal_of(tmp_path / "nowhere", PLAIN).what
    assert (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_nothing_to_do_is_done_at_once(trained: Path) -> None:
    summary = fit(PLAIN, steps=30, checkpoint_dir=trained, resume=True)
    assert (summary.outcome, summary.step, summary.rows) == ("done", 30, 0)
    assert summary.checkpoint == str(trained / "step-00000030")


def test_a_broken_checkpoint_gives_way_to_the_one_before(trained: Path) -> None:
    whole, before = bits_at(trained, 30), Store(trained).steps()[-2]
    path = trained / "step-00000030" / "state.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    summary = fit(PLAIN, steps=30, checkpoint_dir=trained, resume=True)
    assert summary.resumed_from == before
    assert "state.safetensors" in summary.notes[0]
    assert same_bits(bits_at(trained, 30), whole)


def test_a_broken_manifest_is_a_training_too(trained: Path) -> None:
    for path in trained.glob("step-*/manifest.json"):
        path.write_text("{")
    error = refusal_of(trained, PLAIN, resume=False)
    assert "holds a training already" in error.what


def test_a_folder_in_which_another_run_trains_is_told(tmp_path: Path) -> None:
    """Before it has saved anything, and after."""
    folder = tmp_path / "run"
    with Store(folder):
        assert "Another run writes its checkpoints to" in refusal_of(folder, PLAIN).what
    fit(PLAIN, steps=2, checkpoint_dir=folder)
    with Store(folder):
        assert "Another run writes its checkpoints to" in refusal_of(folder, PLAIN).what
    assert fit(PLAIN, steps=3, checkpoint_dir=folder, resume=True).step == 3


@pytest.mark.parametrize(
    "data",
    [
        (torch.randn(0, 12), torch.randint(0, 3, (0,))),
        DataLoader(TensorDataset(torch.randn(4, 12)), batch_size=8, drop_last=True),
    ],
)
def test_evaluation_data_without_a_batch_is_told_before_training(data: Any, tmp_path: Path) -> None:
    error = refusal_of(tmp_path, make_task(evaluation_data=data), resume=False)
    assert error.what == "The evaluation data gives no batch."


FAILS = """
import torch
from torch.nn import functional as F
from torch.utils.data import Dataset

import hasten

class Broken(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        raise ZeroDivisionError("of row 0")

def make():
    data = torch.randn(24, 4), torch.randint(0, 3, (24,))
    return hasten.Task(
        model=torch.nn.Linear(4, 3),
        data=data,
        loss=F.cross_entropy,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        batch_size=4,
        evaluation_data=Broken(),
    )
"""


def test_a_fault_of_the_evaluation_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evaluates_badly.py").write_text(FAILS)
    monkeypatch.chdir(tmp_path)
    name = "evaluates_badly.py:make"
    with pytest.raises(HastenError) as error:
        fit(name, steps=20, checkpoint_dir=tmp_path / "run", checkpoint_every=5)
    assert error.value.what.startswith(
        f"{name} raised in the evaluation after step 6: ZeroDivisionError: of row 0"
    )
    last = tmp_path / "run/step-00000006"
    assert error.value.fix == (
        f"Every step is saved. Mend that, and go on from {last} by --resume."
    )
    assert '"checkpoint":{"step":6' in (tmp_path / "run/events.jsonl").read_text()
    with pytest.raises(HastenError) as error:
        fit(name, steps=20)
    assert "in the evaluation after step 6" in error.value.what
    assert error.value.fix == "Mend that. With a folder for checkpoints less would be lost."


def test_a_metric_that_fails_loses_no_step(tmp_path: Path) -> None:
    def fail(outputs: Tensor, targets: Tensor) -> Tensor:
        raise ZeroDivisionError

    task = make_task(
        evaluation_data=(torch.randn(8, 12), torch.randint(0, 3, (8,))),
        metrics={"bad": Metric(compute=fail, higher_is_better=True)},
    )
    with pytest.raises(ZeroDivisionError):
        fit(task, steps=20, evaluate_every=Every(5, "step"), checkpoint_dir=tmp_path)
    assert Store(tmp_path).steps() == [5]


def test_a_sick_checkpoint_is_not_gone_on_from(tmp_path: Path) -> None:
    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        calls.append(1)
        return F.cross_entropy(outputs, targets) * (float("nan") if len(calls) > 6 else 1)

    calls: list[int] = []
    made = [make_task(loss=loss) for _ in range(2)]
    sick_one = fit(made[0], steps=12, checkpoint_dir=tmp_path, checkpoint_every=4, log_every=3)
    assert sick_one.notes == ("the loss is not finite at step 9",)
    sick = [
        step for step in Store(tmp_path).steps() if not Store(tmp_path).read(step).manifest.healthy
    ]
    assert sick == [12]  # of the sick ones the newest, beside the healthy
    calls.clear()
    summary = fit(made[1], steps=6, checkpoint_dir=tmp_path, resume=True)
    assert summary.resumed_from in (4, 6)
    assert "not finite" in summary.notes[0]
    assert summary.notes[1] == f"training goes on from step {summary.resumed_from}"


class Stream(Dataset[Tensor]):
    """Its items come from a generator of its own."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(0)

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.randn(12, generator=self.generator), torch.tensor(index % 3)


def test_data_that_cannot_be_repeated_is_refused(tmp_path: Path) -> None:
    fit(make_task(data=Stream()), steps=3, checkpoint_dir=tmp_path)
    error = refusal_of(tmp_path, make_task(data=Stream()))
    assert "its items draw from a random generator of the dataset's own" in error.what


class DrawsAsItGoes:
    """A batch sampler with a draw for each batch, between those of the steps."""

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(6):
            yield torch.randint(0, 40, (4,)).tolist()

    def __len__(self) -> int:
        return 6


def test_a_sampler_that_draws_between_batches_that_draw_is_refused(tmp_path: Path) -> None:
    def collate(items: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
        rows, targets = default_collate(items)
        return [rows + torch.rand(()), targets]

    data = TensorDataset(torch.randn(40, 12), torch.arange(40) % 3)
    loader = DataLoader(data, batch_sampler=DrawsAsItGoes(), collate_fn=collate)  # type: ignore[arg-type]
    fit(make_task(data=loader, batch_size=None), steps=3, checkpoint_dir=tmp_path)
    error = refusal_of(tmp_path, make_task(data=loader, batch_size=None))
    assert "its sampler draws random numbers between those of batches and steps" in error.what


def test_workers_that_live_on_and_draw_are_refused_later(tmp_path: Path) -> None:
    class Noise(Stream):
        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            return torch.randn(12), torch.tensor(index % 3)

    loader = DataLoader(Noise(), batch_size=8, num_workers=1, persistent_workers=True)
    fit(make_task(data=loader, batch_size=None), steps=7, checkpoint_dir=tmp_path)
    loader._iterator = None  # another process has none; and it ends them
    error = refusal_of(tmp_path, make_task(data=loader, batch_size=None))
    assert "in workers that have lived since the first epoch" in error.what


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"epochs": 1, "steps": 1}, "Both epochs and steps are given."),
        ({"steps": 0}, "steps=0 is not possible."),
        ({"epochs": -1}, "epochs=-1 is not possible."),
        ({"log_every": 0}, "log_every=0 is not possible."),
        ({"resume": True}, "resume is given without a folder for checkpoints."),
        ({"checkpoint_every": 5}, "checkpoint_every is given without a folder for checkpoints."),
    ],
)
def test_wishes_that_cannot_be(options: dict[str, Any], what: str) -> None:
    with pytest.raises(HastenError) as error:
        fit(PLAIN, **options)
    assert error.value.what == what


def test_data_without_a_batch_is_told() -> None:
    with pytest.raises(HastenError, match="gives no batch"):
        fit(make_task(data=(torch.randn(0, 12), torch.randint(0, 3, (0,))), shuffle=False))


def test_a_clock_that_jumps_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hours = iter(range(10**6))
    monkeypatch.setattr(time, "time", lambda: 3600.0 * next(hours))
    summary = fit(PLAIN, steps=10, checkpoint_dir=tmp_path, checkpoint_every=5, log_every=5)
    assert summary.elapsed_s < 600
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    elapsed = [next(iter(line.values()))["elapsed_s"] for line in lines]
    assert max(elapsed) < 600
    assert Store(tmp_path).steps()[-1] == 10
