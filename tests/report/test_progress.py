"""What is told while it goes on."""

import io
import signal
import sys
from collections.abc import Callable

import pytest
from rich.console import Console

from hasten.records.progress import Doing
from hasten.report import progress as module
from hasten.report.progress import Progress
from terminal import CONTROL, lines_seen, run_on_terminal

TRYING = Doing(
    phase="searching", what="trying compile against host-bound", best="1.62x", left_s=250.0
)
JOB = """
import time
from rich.console import Console
from hasten.records.progress import Doing
from hasten.report.progress import Progress

with Progress(Console(stderr=True)) as progress:
    for seconds in range(300, 0, -100):
        doing = Doing(phase="searching", what="trying compile against host-bound",
                      best="1.62x", left_s=float(seconds))
        progress.show(doing)
        time.sleep(0.3)
    progress.warn("the page could not be made")
    time.sleep({seconds})
print("the card")
"""
HOSTILE = "\x1b[2Jtrying [bold]x[/bold][/nothing] :bug:\n"
INERT = "?[2Jtrying [bold]x[/bold][/nothing] :bug:?"


def make_console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    environment = {"TERM": "xterm"}
    return Console(file=file, width=100, force_terminal=terminal, _environ=environment), file


def test_each_thing_is_one_plain_line_where_there_is_no_terminal() -> None:
    console, file = make_console(terminal=False)
    with Progress(console) as progress:
        progress.tell("measuring the naive training")
        progress.tell("trying compile (1 of 2)")
    first, second = file.getvalue().splitlines()
    assert first.endswith(" s  measuring the naive training")
    assert second.endswith(" s  trying compile (1 of 2)")


def test_a_long_line_is_not_broken() -> None:
    console, file = make_console(terminal=False)
    with Progress(console) as progress:
        progress.tell("word " * 60)
    assert len(file.getvalue().splitlines()) == 1


def test_hostile_names_are_told_inert_without_a_terminal() -> None:
    console, file = make_console(terminal=False)
    with Progress(console) as progress:
        progress.tell(HOSTILE)
    assert file.getvalue().rstrip("\n").endswith(INERT)


def test_hostile_names_are_told_inert_on_a_terminal() -> None:
    console, file = make_console(terminal=True)
    with Progress(console) as progress:
        progress.tell(HOSTILE)
    assert INERT in file.getvalue()
    assert "\x1b[2J" not in file.getvalue()


@pytest.mark.parametrize(("keep", "word"), [(Progress.note, "note"), (Progress.warn, "warning")])
def test_what_stays_on_the_screen_is_told_inert(
    keep: Callable[[Progress, str], None], word: str
) -> None:
    console, file = make_console(terminal=False)
    keep(Progress(console), HOSTILE)
    assert file.getvalue() == f"{word}: {INERT}\n"


def test_a_terminal_has_its_cursor_back_after_a_failure() -> None:
    console, file = make_console(terminal=True)
    try:
        with Progress(console) as progress:
            progress.tell("measuring")
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert file.getvalue().rindex("\x1b[?25h") > file.getvalue().rindex("\x1b[?25l")


def script(seconds: float = 0.1) -> list[str]:
    return [sys.executable, "-c", JOB.format(seconds=seconds)]


def test_a_plain_line_has_the_phase_the_best_so_far_and_the_time_left() -> None:
    console, file = make_console(terminal=False)
    with Progress(console) as progress:
        progress.show(TRYING)
        progress.show(Doing(phase="measuring", what="measuring the noise"))
    first, second = file.getvalue().splitlines()
    said = "trying compile against host-bound; best: 1.62x; about 4.2 min left"
    assert first.endswith(f" s  searching: {said}")
    assert second.endswith(" s  measuring the noise"), "the phase is not said twice"


def test_time_that_was_not_foreseen_is_not_counted_down_for_ever() -> None:
    console, file = make_console(terminal=False)
    with Progress(console) as progress:
        progress.show(Doing(phase="confirming", what="training", left_s=0.0))
    assert file.getvalue().endswith("confirming: training; taking longer than expected\n")


def test_the_time_left_goes_down_while_one_thing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    console, _ = make_console(terminal=True)
    progress = Progress(console)
    progress.show(TRYING)
    clock[0] = 130.0
    assert progress._line().plain.endswith("; about 2.0 min left")
    assert progress._line().plain.startswith(" 130 s  searching: ")


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_on_a_terminal_it_is_one_line_that_fits_and_is_gone_in_the_end(columns: int) -> None:
    code, written = run_on_terminal(script(), columns)
    assert code == 0, written
    lines = lines_seen(written)
    shown = [line for line in lines if "searching:" in line]
    assert shown
    assert all(len(line) <= columns for line in shown), shown
    assert any("about 5.0 min left" in line for line in shown) == (columns > 60), shown
    assert lines[-1] == "the card"
    assert any(line.startswith("warning: the page could not") for line in lines)
    after = written[written.rindex("the page could not be made") :]
    assert "\x1b[2K" in after, "the live line is erased"


def test_an_interrupted_terminal_is_left_clean() -> None:
    code, written = run_on_terminal(script(60.0), 100, interrupt_at="the page could not")
    assert code == -signal.SIGINT, written
    hidden, shown = written.rindex("\x1b[?25l"), written.rindex("\x1b[?25h")
    assert shown > hidden, "the cursor is back"
    traceback = written[written.index("Traceback") :]
    assert "searching:" not in CONTROL.sub("", traceback), "nothing is drawn any more"


def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines() -> None:
    code, written = run_on_terminal(script(), 200, term="dumb")
    assert code == 0, written
    assert "\x1b" not in written
    assert len([line for line in lines_seen(written) if "searching:" in line]) == 3
