"""A training while it runs: on real terminals, in a pipe, and by a clock that the test turns."""

import io
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from hasten.records.checkpoint import Position
from hasten.records.measurement import Memory
from hasten.report.bar import bar_line
from hasten.report.training import LINE_S, REFRESH_S, TrainingDisplay
from specimens import CHECKPOINT_EVENT, EVALUATION_EVENT, NOTE_EVENT, STEP_EVENT, SUMMARY
from terminal import CONTROL, lines_seen, plain_environment, run_on_terminal

replace = msgspec.structs.replace

START = Position(step=0, epoch=0, batches=0)
HOSTILE = "\x1b[2J[bold]x[/nothing] :bug:\n\r"
INERT = "?[2J[bold]x[/nothing] :bug:??"

TRAINING = """
import sys, time
sys.path.insert(0, {tests!r})
from msgspec.structs import replace
from hasten.report.training import TrainingConsole, TrainingDisplay
from hasten.records.checkpoint import Position
from specimens import *

hostile = {hostile!r}
total = {total}
with TrainingDisplay(TrainingConsole()) as display:
    display.started(Position(step=0, epoch=0, batches=0), total)
    for step in range(1, 10_001):
        display.stepped(step)
        if step % 1000 == 0:
            time.sleep(0.06)
            display.event(replace(STEP_EVENT, step=step))
    print("said by the user")
    display.event(replace(EVALUATION_EVENT, metrics={{"loss": 0.5, hostile: 0.75}}))
    display.event(replace(CHECKPOINT_EVENT, path=hostile))
    display.event(replace(NOTE_EVENT, words=hostile))
    if {fails}:
        raise RuntimeError("planted")
    display.ended(replace(SUMMARY, step=10_000))
print("the card")
"""


def script(total: int | None = 10_000, *, fails: bool = False) -> list[str]:
    tests = str(Path(__file__).parents[1])
    text = TRAINING.format(tests=tests, hostile=HOSTILE, total=total, fails=fails)
    return [sys.executable, "-c", text]


def bars(written: str) -> list[str]:
    return [line for line in lines_seen(written) if "━" in line]


def test_80_columns_have_the_bar_and_every_figure() -> None:
    code, written = run_on_terminal(script(), 80)
    assert code == 0, written
    last = bars(written)[-1]
    assert last.endswith("  0:00 left")
    assert "━━━━━  10,000/10,000  loss 0.6931  12,345 rows/s  wait 3 %  361 MiB  0:00" in last
    assert max(map(len, bars(written))) <= 80


def test_60_columns_go_without_the_least_important_figures() -> None:
    code, written = run_on_terminal(script(), 60)
    assert code == 0, written
    last = bars(written)[-1]
    assert last.endswith("━  10,000/10,000  loss 0.6931  12,345 rows/s  0:00 left")
    assert len(last) <= 60


@pytest.mark.parametrize("columns", [80, 60])
def test_the_bar_is_one_line_that_is_drawn_over(columns: int) -> None:
    """No line feed but after what is printed above it, and after the last state."""
    _, written = run_on_terminal(script(), columns)
    printed = [line for line in lines_seen(written) if line.startswith("   ")]
    assert len(bars(written)) > 3
    assert written.count("\n") <= 3 + len(printed) + 6, "the hostile lines may be wrapped"


def test_what_happens_is_printed_above_the_bar_with_names_made_inert() -> None:
    _, written = run_on_terminal(script(), 80)
    assert "said by the user" in lines_seen(written)
    text = re.sub(r"\r\n {9}", " ", CONTROL.sub("", written))
    assert f"   0:03  evaluation at step 64: loss=0.5, {INERT}=0.75, took 250.0 ms" in text
    assert f"checkpoint at step 64: {INERT}, training stood still for 12.0 ms" in text
    assert f"   0:04  note at step 64: {INERT}" in text
    assert "\x1b[2J" not in written
    assert "🐛" not in written


@pytest.mark.parametrize("fails", [False, True])
def test_a_terminal_has_its_cursor_back(fails: bool) -> None:
    code, written = run_on_terminal(script(fails=fails), 80)
    assert code == fails
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")
    assert ("planted" in written) is fails


def test_a_length_that_nobody_knows_is_a_counter_without_a_bar() -> None:
    _, written = run_on_terminal(script(total=None), 80)
    assert bars(written) == []
    assert "step 10,000  loss 0.6931  12,345 rows/s  wait 3 %  361 MiB" in lines_seen(written)


def test_a_dumb_terminal_has_plain_lines() -> None:
    _, written = run_on_terminal(script(), 80, term="dumb")
    assert "\x1b" not in written
    assert "step 10,000/10,000" in written


@pytest.mark.parametrize("total", [10_000, None])
def test_a_pipe_has_plain_lines_without_control_characters(total: int | None) -> None:
    done = subprocess.run(script(total), capture_output=True, check=True, env=plain_environment())
    lines = done.stderr.decode().split("\n")
    assert all(line.isprintable() for line in lines)
    of = "" if total is None else "/10,000"
    figures = "loss 0.6931  12,345 rows/s  wait 3 %  361 MiB"
    first = " 1,000" if total else "1,000"
    assert lines[0] == f"   0:02  step {first}{of}  {figures}"
    assert [line.split()[1] for line in lines[1:4]] == ["evaluation", "checkpoint", "note"]
    assert lines[4:] == [f"   0:02  step 10,000{of}  {figures}", ""]
    assert done.stdout == b"said by the user\nthe card\n"


def test_what_the_user_prints_goes_where_stdout_goes(tmp_path: Path) -> None:
    code = f'exec {sys.executable} -c "$0" > said.txt'
    _, written = run_on_terminal(["sh", "-c", code, script()[-1]], 80, folder=tmp_path)
    assert (tmp_path / "said.txt").read_text() == "said by the user\nthe card\n"
    assert "said by the user" not in written


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def make_display(*, terminal: bool = False) -> tuple[TrainingDisplay, Clock, io.StringIO]:
    file, clock = io.StringIO(), Clock()
    console = Console(file=file, width=80, force_terminal=terminal, _environ={"TERM": "xterm"})
    return TrainingDisplay(console, clock), clock, file


def test_steps_are_told_once_a_second_the_first_and_the_last_always() -> None:
    display, clock, file = make_display()
    display.started(START, 100)
    for step in range(1, 101):
        clock.now += LINE_S / 10
        display.stepped(step)
        display.event(replace(STEP_EVENT, step=step))
    display.ended(replace(SUMMARY, step=100))
    steps = [line.split("/")[0].split()[-1] for line in file.getvalue().splitlines()]
    assert steps[0] == "1"
    assert steps[-1] == "100"
    assert 10 <= len(steps) <= 12


def test_every_other_event_is_told_however_many_there_are() -> None:
    display, _, file = make_display()
    display.started(START, None)
    for _ in range(10):
        display.event(EVALUATION_EVENT)
        display.event(CHECKPOINT_EVENT)
    display.ended(SUMMARY)
    assert len(file.getvalue().splitlines()) == 20


def test_on_a_terminal_words_wrap_under_themselves_and_paths_stay_whole() -> None:
    display, _, file = make_display(terminal=True)
    path = "folder/" * 20
    display.event(replace(CHECKPOINT_EVENT, path=path))
    display.event(replace(NOTE_EVENT, words="one word after another " * 8))
    lines = CONTROL.sub("", file.getvalue()).splitlines()
    assert lines[:3] == [
        "   0:03  checkpoint at step 64:",
        f"         {path},",
        "         training stood still for 12.0 ms",
    ]
    assert len(lines) > 5
    assert max(map(len, lines[3:])) <= 80


def test_a_checkpoint_that_is_not_healthy_is_said_to_be() -> None:
    display, _, file = make_display()
    display.started(START, None)
    display.event(replace(CHECKPOINT_EVENT, healthy=False))
    assert "out/step-64, NOT HEALTHY: a weight is not finite" in file.getvalue()


def test_the_bar_is_drawn_by_the_clock_and_not_by_the_steps() -> None:
    display, clock, file = make_display(terminal=True)
    display.started(START, 100_000)
    before = len(file.getvalue())
    for step in range(1, 10_001):
        display.stepped(step)
    assert file.getvalue()[before:].count("/100,000") == 1
    clock.now += REFRESH_S
    display.stepped(10_001)
    assert file.getvalue()[before:].count("/100,000") == 2
    display.close()


def test_the_time_left_is_counted_from_the_end_of_the_first_step() -> None:
    display, clock, file = make_display(terminal=True)
    display.started(START, 101)
    clock.now += 1000  # what the first step compiles, the others do not
    display.stepped(1)
    assert "left" not in file.getvalue()
    clock.now += 100
    display.stepped(51)
    assert "1:40 left" in file.getvalue()
    display.close()


def test_a_display_may_be_closed_twice_and_before_it_began() -> None:
    display, _, _ = make_display(terminal=True)
    display.close()
    display.started(START, 1)
    display.close()
    display.close()


def test_a_terminal_that_is_gone_is_no_error_at_the_end() -> None:
    display, _, file = make_display(terminal=True)
    display.started(START, 1)
    file.close()
    display.close()


@pytest.mark.parametrize("total", [None, 1, 1_000_000_000])
def test_the_bar_fits_any_width_that_holds_its_counter(total: int | None) -> None:
    event = replace(
        STEP_EVENT, loss=-1.2345e-300, rows_per_s=1e9, memory=Memory(device_allocated_bytes=1 << 40)
    )
    step = total or 123
    for columns in range(1, 130):
        line = bar_line(step, total, event, 1e6, width=columns, plain=False).plain
        assert len(line) <= max(columns, 27 if total else 3)
        assert f"{step:,}" in line


def test_a_terminal_without_colours_tells_the_bar_from_its_rest() -> None:
    line = bar_line(50, 100, None, None, width=40, plain=True).plain
    assert "#" in line
    assert line.count("#") == line.count("-")
