"""What is told while it goes on."""

import io

from rich.console import Console

from hasten.report.progress import Progress

HOSTILE = "\x1b[2Jtrying [bold]x[/bold][/nothing] :bug:\n"
INERT = "?[2Jtrying [bold]x[/bold][/nothing] :bug:?"


def make_console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=100, force_terminal=terminal), file


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


def test_a_terminal_has_its_cursor_back_after_a_failure() -> None:
    console, file = make_console(terminal=True)
    try:
        with Progress(console) as progress:
            progress.tell("measuring")
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert file.getvalue().rindex("\x1b[?25h") > file.getvalue().rindex("\x1b[?25l")
