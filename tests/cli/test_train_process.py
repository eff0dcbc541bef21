"""``hasten train`` as a process: terminals, pipes, readers that go away, signals.

The training is a stand-in but for the last test.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from terminal import lines_seen, plain_environment, run_on_terminal

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
