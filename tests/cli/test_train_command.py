"""``hasten train``: what its flags ask of a training, and how it ends.

The training is a stand-in, in this process or in a real one; what it is asked is the real thing.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from click.testing import CliRunner, Result

from checkpoints import write
from hasten.cli.main import hasten
from hasten.config import OptimizationLevel, PerformanceConfig
from hasten.errors import HastenError
from hasten.host.environment import read_environment
from hasten.records.plan import Plan
from hasten.records.recipe import Recipe
from hasten.records.record import to_toml
from hasten.records.training import RecipeClaim, TrainingSummary
from hasten.report.training import TrainingDisplay
from hasten.train.every import Every
from hasten.train.fit import Wanted
from hasten.train.signals import StopRequest
from hasten.train.sinks import Sink
from specimens import RECIPE, SUMMARY
from terminal import lines_seen, plain_environment, run_on_terminal

SCHEMA = Path(__file__).parents[2] / "docs/schema/train.json"
replace = msgspec.structs.replace

STOPPED = replace(SUMMARY, outcome="stopped", why="Ctrl-C", signal=int(signal.SIGINT))


class Fit:
    """Remembers what it was asked, and answers with a summary."""

    def __init__(self) -> None:
        self.summary: TrainingSummary = SUMMARY
        self.asked: list[Wanted] = []

    def __call__(self, wanted: Wanted, stop: StopRequest, sinks: Sequence[Sink]) -> TrainingSummary:
        self.asked.append(wanted)
        assert [type(each) for each in sinks] == [TrainingDisplay]
        print("said by the user's code")
        return self.summary

    @property
    def wanted(self) -> Wanted:
        return self.asked[0]


@pytest.fixture(autouse=True)
def _any_name_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is trained; tests/cli/test_mistyped_tasks.py is about names."""
    monkeypatch.setattr("hasten.task.names.refuse_unknown", lambda task: None)


@pytest.fixture
def fit(monkeypatch: pytest.MonkeyPatch) -> Fit:
    stand_in = Fit()
    monkeypatch.setattr("hasten.train.fit.train", stand_in)
    return stand_in


def train(*arguments: str) -> Result:
    return CliRunner().invoke(hasten, ["train", "t.py:make", *arguments])


def refusal(*arguments: str) -> HastenError:
    ended = train(*arguments)
    assert isinstance(ended.exception, HastenError), ended.output
    return ended.exception


def write_recipe(folder: Path, **fields: Any) -> str:
    path = folder / "recipe.toml"
    here: Recipe = replace(RECIPE, task="t.py:make", environment=read_environment())
    path.write_text(to_toml(replace(here, **fields)), encoding="utf-8")
    return str(path)


def test_without_flags_the_training_is_as_it_is(fit: Fit) -> None:
    ended = train()
    assert ended.exit_code == 0, ended.output
    assert fit.asked == [Wanted(task="t.py:make")]


def test_every_flag_arrives(fit: Fit, tmp_path: Path) -> None:
    train(
        *("--steps", "100", "--seed", "7", "--checkpoint-dir", str(tmp_path), "--resume"),
        *("--checkpoint-every", "10", "--evaluate-every", "20 steps", "--log-every", "5"),
        "--deterministic",
    )
    assert fit.wanted == Wanted(
        task="t.py:make",
        steps=100,
        seed=7,
        checkpoint_dir=tmp_path,
        resume=True,
        checkpoint_every=10,
        evaluate_every=Every(20, "step"),
        log_every=5,
        deterministic=True,
    )


def test_flags_alone_are_parts_of_the_naive_plan(fit: Fit) -> None:
    train("--mixed-precision", "fp16", "--compile-model", "--gradient-checkpointing")
    assert fit.wanted.plan == Plan(
        parts={
            "mixed_precision": {"dtype": "fp16"},
            "compile": {},
            "activation_checkpointing": {},
        }
    )


@pytest.mark.parametrize("level", OptimizationLevel)
def test_a_level_is_a_config_with_the_flags_as_wishes(fit: Fit, level: OptimizationLevel) -> None:
    train("--level", level.value, "--mixed-precision", "none")
    assert fit.wanted.plan == PerformanceConfig(optimization_level=level, enable_amp=False)


def test_a_recipe_is_its_plan_and_its_claim(fit: Fit, tmp_path: Path) -> None:
    speed = replace(RECIPE.speed, rows_per_s=15_000.0)
    path = write_recipe(tmp_path, speed=speed)
    ended = train("--recipe", path)
    assert fit.wanted.plan == RECIPE.as_plan()
    assert fit.wanted.claim == RecipeClaim(path=path, ratio=1.5, rows_per_s=15_000.0)
    assert "note:" not in ended.stderr


def test_a_recipe_that_flags_change_claims_nothing(fit: Fit, tmp_path: Path) -> None:
    ended = train("--recipe", write_recipe(tmp_path), "--mixed-precision", "bf16")
    assert fit.wanted.plan == RECIPE.as_plan().with_part("mixed_precision", {"dtype": "bf16"})
    assert fit.wanted.claim is None
    assert "note: the flags change the plan of" in ended.stderr


def test_a_recipe_of_another_task_is_said_to_be(fit: Fit, tmp_path: Path) -> None:
    ended = train("--recipe", write_recipe(tmp_path, task="other.py:make\n"))
    assert "was proven for other.py:make?" in ended.stderr
    assert len(fit.asked) == 1


def test_a_recipe_from_another_machine_is_refused_with_what_to_do(fit: Fit, tmp_path: Path) -> None:
    elsewhere = replace(read_environment(), cpu="Cray-1")
    error = refusal("--recipe", write_recipe(tmp_path, environment=elsewhere))
    assert "another machine (cpu: Cray-1, here " in error.what
    assert error.fix == "Tune again here: hasten tune t.py:make"
    assert fit.asked == []


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (
            ["--recipe", "r.toml", "--level", "basic"],
            "--recipe and --level cannot be used together",
        ),
        (["--epochs", "1", "--steps", "1"], "--epochs and --steps cannot be used together"),
        (["--resume"], "--resume is given without --checkpoint-dir"),
        (["--checkpoint-every", "5"], "--checkpoint-every is given without --checkpoint-dir"),
        (["--epochs", "0"], "--epochs 0 is not possible"),
        (["--steps", "-1"], "--steps -1 is not possible"),
        (["--log-every", "0"], "--log-every 0 is not possible"),
        (
            ["--checkpoint-dir", "d", "--checkpoint-every", "0"],
            "--checkpoint-every 0 is not possible",
        ),
        (["--evaluate-every", "0"], "'0' is not how often something can be done"),
        (["--evaluate-every", "5 minutes"], "'5 minutes' is not how often"),
        (["--recipe", "nowhere.toml"], "The recipe nowhere.toml cannot be read"),
        (["--recipe", ""], "--recipe is empty"),
        (["--checkpoint-dir", ""], "--checkpoint-dir is empty"),
    ],
)
def test_a_bad_command_line_is_refused_before_any_work(
    arguments: list[str],
    what: str,
    fit: Fit,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    error = refusal(*arguments)
    assert what in error.what
    assert error.fix
    assert fit.asked == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [["--level", "extreme"], ["--mixed-precision", "fp8"], ["--epochs", "many"]]
)
def test_a_word_that_nobody_knows_is_refused(arguments: list[str], fit: Fit) -> None:
    ended = train(*arguments)
    assert ended.exit_code == 2
    assert "Invalid value" in ended.stderr
    assert fit.asked == []


@pytest.mark.parametrize(
    ("summary", "code"),
    [
        (SUMMARY, 0),
        (STOPPED, 130),
        (replace(STOPPED, signal=int(signal.SIGTERM)), 143),
        (replace(STOPPED, signal=None), 1),
        (replace(SUMMARY, signal=int(signal.SIGINT)), 0),  # it came when all was done
    ],
)
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_the_exit_code_says_how_it_ended(
    summary: TrainingSummary, code: int, flags: list[str], fit: Fit
) -> None:
    fit.summary = summary
    assert train(*flags).exit_code == code


def test_the_card_has_the_exact_command_that_resumes(fit: Fit) -> None:
    fit.summary = STOPPED
    ended = train(
        "--epochs", "3", "--checkpoint-dir", "a folder", "--compile-model", "--log-every=5"
    )
    assert (
        "  resume:\n    hasten train t.py:make --compile-model --epochs 3"
        " --checkpoint-dir 'a folder' --log-every 5 --resume\n"
    ) in ended.stdout


def test_a_resumed_training_is_resumed_by_the_same_command(fit: Fit) -> None:
    fit.summary = STOPPED
    ended = train("--checkpoint-dir", "d", "--resume")
    assert "    hasten train t.py:make --checkpoint-dir d --resume\n" in ended.stdout


@pytest.mark.parametrize(
    ("given", "raised"),
    [
        ([], "--epochs 20 "),
        (["--epochs", "10"], "--epochs 20 "),
        (["--epochs", "4"], "--epochs 20 "),  # ten were done before
        (["--steps", "640"], "--steps 1280 "),
    ],
)
def test_a_done_training_goes_on_by_a_command_with_a_larger_total(
    given: list[str], raised: str, fit: Fit
) -> None:
    ended = train("--checkpoint-dir", "d", *given, "--resume")
    assert f"    hasten train t.py:make {raised}--checkpoint-dir d --resume\n" in ended.stdout


@pytest.mark.parametrize(
    ("every", "words"),
    [
        ("1epoch", "none; the task has no evaluation data"),
        ("640", "none; the task has no evaluation data"),
        ("641", "none; it comes every 641 steps, if the task has evaluation data"),
        ("11epochs", "none; it comes every 11 epochs, if the task has evaluation data"),
    ],
)
def test_without_an_evaluation_the_card_says_why(every: str, words: str, fit: Fit) -> None:
    fit.summary = replace(SUMMARY, metrics={})
    assert f"  evaluation     {words}\n" in train("--evaluate-every", every).stdout


def test_an_evaluation_that_a_signal_may_have_cut_short_blames_nobody(fit: Fit) -> None:
    fit.summary = replace(STOPPED, metrics={})
    assert "evaluation     none; it comes every 1 epoch, if" in train().stdout


def test_json_is_one_document_of_its_schema_whatever_the_users_code_prints(fit: Fit) -> None:
    fit.summary = replace(SUMMARY, loss=float("nan"))
    ended = train("--json")
    document = json.loads(ended.stdout)
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    assert document["loss"] is None
    assert "said by the user's code" in ended.stderr


@pytest.mark.parametrize("error", [ValueError("a bug\n"), SystemExit(1), RecursionError()])
@pytest.mark.parametrize(("summary", "code"), [(SUMMARY, 0), (STOPPED, 130)])
def test_a_card_that_fails_loses_neither_the_training_nor_the_exit_code(
    error: BaseException,
    summary: TrainingSummary,
    code: int,
    fit: Fit,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("hasten.report.summary.summary_card", fail)
    fit.summary = summary
    ended = train()
    assert ended.exit_code == code
    assert ended.stderr.count("warning: The card could not be shown") == 1
    assert f"{summary.outcome} at step 640, loss 0.123" in ended.stderr
    assert "checkpoint: out/step-640" in ended.stderr


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((), "Nothing was saved: there is no checkpoint in run yet.\n"),
        (
            (20, 40),
            "What was trained after the last checkpoint, run/step-00000040, is not saved. Go on"
            " from there:\nhasten train t.py:make --checkpoint-dir run --resume\n",
        ),
    ],
)
def test_an_interruption_that_does_not_save_says_what_is_left(
    steps: tuple[int, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hasten.train.fit.train", _interrupt)
    write(Path("run"), *steps)
    assert words in train("--checkpoint-dir", "run").stderr


def test_an_interruption_without_a_folder_says_that_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hasten.train.fit.train", _interrupt)
    assert "Nothing was saved: there is no --checkpoint-dir." in train().stderr


def test_an_interruption_before_the_first_step_has_nothing_to_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hasten.train.fit.train", _interrupt_at_once)
    write(tmp_path, 20)
    assert train("--checkpoint-dir", str(tmp_path), "--resume").stderr.strip() in ("", "Aborted!")


def _interrupt(wanted: Wanted, stop: StopRequest, sinks: Sequence[Sink]) -> None:
    stop.nothing_to_lose = False
    raise KeyboardInterrupt


def _interrupt_at_once(*_: Any) -> None:
    raise KeyboardInterrupt


STAND_IN = """
import sys
sys.path.insert(0, {tests!r})
import time
from msgspec.structs import replace
from specimens import *
from hasten.records.checkpoint import Position
from hasten.errors import HastenError
from hasten.train.sinks import Sinks

def train(wanted, stop, sinks):
    sinks = Sinks(sinks)
    sinks.started(Position(step=0, epoch=0, batches=0), 300)
    for step in range(1, 301):
        time.sleep(0.002)
        sinks.stepped(step)
        if step % 50 == 0:
            sinks.event(replace(STEP_EVENT, step=step))
            sinks.event(replace(EVALUATION_EVENT, step=step))
        if step == 100 and wanted.task == "fails":
            raise HastenError("The model is gone.", fix="Bring it back.")
    summary = replace(SUMMARY, step=300, notes=tuple(sinks.dropped))
    sinks.ended(summary)
    return summary

import hasten.task.names
import hasten.train.fit
hasten.task.names.refuse_unknown = lambda task: None
hasten.train.fit.train = train
sys.argv[1:] = ["train", *sys.argv[1:]]
from hasten.cli.main import main
main()
"""


def process(*arguments: str) -> list[str]:
    text = STAND_IN.format(tests=str(Path(__file__).parents[1]))
    return [sys.executable, "-c", text, *arguments]


@pytest.mark.parametrize("columns", [80, 60])
def test_on_a_terminal_the_bar_is_followed_by_the_card(columns: int) -> None:
    code, written = run_on_terminal(process("task"), columns)
    assert code == 0, written
    seen = lines_seen(written)
    bars = [index for index, line in enumerate(seen) if "━  " in line]
    assert "300/300" in seen[bars[-1]]
    assert max(len(seen[index]) for index in bars) <= columns
    assert seen[bars[-1] + 1].startswith("DONE  train.py:make_task")


def test_in_pipes_progress_and_card_are_plain_text() -> None:
    ended = subprocess.run(process("task"), capture_output=True, env=plain_environment(), text=True)
    assert ended.returncode == 0, ended.stderr
    assert all(line.isprintable() for line in (ended.stdout + ended.stderr).split("\n"))
    assert "step 300/300" in ended.stderr
    assert ended.stdout.startswith("DONE  ")


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_an_error_of_the_training_is_a_fault_with_what_to_do(flags: list[str]) -> None:
    code, written = run_on_terminal(process("fails", *flags), 80)
    assert code == 2
    assert lines_seen(written)[-2:] == ["error: The model is gone.", "       Bring it back."]
    assert ('"error": "The model is gone."' in written) is bool(flags)


SPEAKS_LAST = """
import atexit, sys
atexit.register(lambda: sys.stderr.write("one more thing"))
"""


@pytest.mark.parametrize("last", ["", SPEAKS_LAST], ids=["quiet", "speaks last"])
def test_a_reader_of_stderr_that_goes_away_does_not_stop_the_training(last: str) -> None:
    """Nor does what a library or the interpreter itself says at the very end."""
    command, (reader, writer) = process("task"), os.pipe()
    command[2] = last + command[2]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=writer, env=plain_environment()
    ) as running:
        os.close(writer)
        os.close(reader)
        assert running.stdout is not None
        shown = running.stdout.read().decode()
    assert running.returncode == 0
    assert shown.startswith("DONE  ")
    assert "TrainingDisplay failed and is told nothing more" in shown


@pytest.mark.parametrize("flags", [[], ["--json"]])
@pytest.mark.parametrize(
    ("stdout", "problem"),
    [("/dev/full", "No space left on device"), ("a closed pipe", "Broken pipe")],
)
def test_a_card_that_cannot_be_written_does_not_change_the_exit_code(
    stdout: str, problem: str, flags: list[str]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    if stdout == "/dev/full":
        os.dup2(full := os.open(stdout, os.O_WRONLY), writer)
        os.close(full)
    with subprocess.Popen(
        process("task", *flags), stdout=writer, stderr=subprocess.PIPE, env=plain_environment()
    ) as running:
        os.close(writer)
        assert running.stderr is not None
        told = running.stderr.read().decode()
    assert running.returncode == 0, told
    last = told.splitlines()[-3:]
    assert last[0] == f"warning: The result could not be written to stdout: {problem}."
    assert last[1].startswith("         done at step 300, loss 0.123")
    assert last[2] == "         checkpoint: out/step-640"


def test_a_stdout_that_is_closed_is_said_to_be() -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", *process("task")]
    ended = subprocess.run(command, stderr=subprocess.PIPE, env=plain_environment(), text=True)
    assert ended.returncode == 0, ended.stderr
    last = ended.stderr.splitlines()[-3:]
    assert last[0] == "warning: The result could not be written to stdout: it is closed."
    assert last[2] == "         checkpoint: out/step-640"


def test_nobody_reading_at_all_does_not_change_the_exit_code() -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(process("task"), stdout=full, stderr=full, env=plain_environment())
    assert ended.returncode == 0


def test_a_page_in_a_pipe_is_as_wide_as_columns_says() -> None:
    for columns in ("60", "200"):
        environment = plain_environment() | {"COLUMNS": columns}
        ended = subprocess.run(process("task"), capture_output=True, env=environment, text=True)
        read, _, copied = ended.stdout.partition("Next\n")
        widest = max(map(len, read.splitlines()))
        assert widest <= int(columns)
        assert (widest > 60) is (columns == "200"), "there it is wide enough for all"
        assert all(line == line.rstrip() for line in (read + copied).splitlines())


BLOOM = [sys.executable, "-m", "hasten", "train", "gallery:bloom"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_training_that_is_stopped_goes_on_by_the_command_that_its_card_shows(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    """The real training, in real processes."""
    with subprocess.Popen(
        [*BLOOM, "--steps", "2000", "--checkpoint-dir", "run", "--log-every", "1"],
        cwd=tmp_path,
        env=plain_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stderr is not None
        assert "step" in running.stderr.readline()
        running.send_signal(number)
        card, told = running.communicate(timeout=120)
    assert running.returncode == code, told
    assert card.startswith("STOPPED  gallery:bloom: ")
    stopped_at = int(card.split()[2].replace(",", ""))
    command = card.partition("\n  resume:\n")[2].partition("\n")[0].split()
    assert command[-5:] == ["--checkpoint-dir", "run", "--log-every", "1", "--resume"]
    resumed = [sys.executable, *command[1:]]
    resumed[resumed.index("--steps") + 1] = str(stopped_at + 3)
    ended = subprocess.run(
        [*resumed, "--json"], cwd=tmp_path, env=plain_environment(), capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    summary = json.loads(ended.stdout)
    assert (summary["resumed_from"], summary["step"]) == (stopped_at, stopped_at + 3)
    path = f"run/step-{stopped_at:08}"
    assert ended.stderr.startswith(f"   0:00  note at step {stopped_at:,}: resumed from {path}\n")
    events = [json.loads(line) for line in (tmp_path / "run/events.jsonl").read_text().splitlines()]
    steps = [each["step"]["step"] for each in events if "step" in each]
    assert steps == list(range(1, stopped_at + 4))
