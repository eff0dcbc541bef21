"""Those who are told: one that fails is dropped, and nobody else notices."""

import io
from typing import Any

import pytest

from hasten.records.checkpoint import Position
from hasten.records.training import NoteEvent
from hasten.train.sinks import Event, Sink, Sinks
from specimens import NOTE_EVENT, STEP_EVENT, SUMMARY

START = Position(step=7, epoch=0, batches=7)
CALLS = ["started", "stepped", "event", "ended"]


class Recorder:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def started(self, position: Position, total_steps: int | None) -> None:
        self.told.append((position, total_steps))

    def stepped(self, step: int) -> None:
        self.told.append(step)

    def event(self, event: Event) -> None:
        self.told.append(event)

    def ended(self, summary: object) -> None:
        self.told.append(summary)

    def notes(self) -> list[str]:
        return [each.words for each in self.told if isinstance(each, NoteEvent)]


class Failing(Recorder):
    def __init__(self, call: str, error: BaseException) -> None:
        super().__init__()
        self.times = 0
        setattr(self, call, lambda *_: self._fail(error))

    def _fail(self, error: BaseException) -> None:
        self.times += 1
        raise error


class Screen(Recorder):
    shows_notes = True


def train(*sinks: Sink) -> Sinks:
    everyone = Sinks(sinks)
    everyone.started(START, 9)
    for step in (8, 9):
        everyone.stepped(step)
        everyone.event(STEP_EVENT)
    everyone.ended(SUMMARY)
    return everyone


def test_every_sink_is_told_everything_in_order() -> None:
    sinks = Recorder(), Recorder()
    train(*sinks)
    assert sinks[0].told == [(START, 9), 8, STEP_EVENT, 9, STEP_EVENT, SUMMARY]
    assert sinks[1].told == sinks[0].told


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("error", [OSError(28, "No space left"), ValueError("x"), SystemExit(1)])
def test_a_sink_that_fails_is_dropped_and_said_once(
    call: str, error: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = Failing(call, error), Recorder()
    everyone = train(bad, good)
    assert bad.times == 1
    assert [each for each in good.told if not isinstance(each, NoteEvent)] == [
        (START, 9), 8, STEP_EVENT, 9, STEP_EVENT, SUMMARY,
    ]  # fmt: skip
    (words,) = good.notes()
    assert words.startswith("Failing failed and is told nothing more; training goes on")
    assert f"({type(error).__name__}: {error})" in words
    assert capsys.readouterr().err == f"warning: {words}\n"
    assert everyone.dropped == [words]


def test_the_note_says_at_which_step() -> None:
    good = Recorder()
    everyone = Sinks([Failing("event", ValueError()), good])
    everyone.started(START, None)
    everyone.stepped(8)
    everyone.event(STEP_EVENT)
    (note,) = (each for each in good.told if isinstance(each, NoteEvent))
    assert note.step == 8
    assert note.elapsed_s >= 0


def test_where_a_sink_shows_notes_nothing_more_is_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = Screen()
    train(Failing("event", ValueError("x")), screen)
    assert len(screen.notes()) == 1
    assert capsys.readouterr().err == ""


def test_all_may_fail_at_once_even_at_the_note_about_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sinks = [Failing("event", ValueError(str(number))) for number in range(3)]
    everyone = train(*sinks)
    assert [each.times for each in sinks] == [1, 1, 1]
    assert len(everyone.dropped) == 3
    assert capsys.readouterr().err.count("warning: ") == 3


def test_an_error_with_control_characters_is_written_inert(
    capsys: pytest.CaptureFixture[str],
) -> None:
    train(Failing("stepped", ValueError("\x1b[2J\n")))
    assert "(ValueError: ?[2J?)" in capsys.readouterr().err


@pytest.mark.parametrize("broken", [None, io.StringIO()])
def test_without_a_stderr_training_goes_on(
    broken: io.StringIO | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broken is not None:
        broken.close()
    monkeypatch.setattr("sys.stderr", broken)
    assert len(train(Failing("stepped", ValueError())).dropped) == 1


def test_ctrl_c_is_not_the_failure_of_a_sink() -> None:
    class Pressed(Recorder):
        def stepped(self, step: int) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Sinks([Pressed()]).stepped(1)


def test_nobody_to_tell_is_fine() -> None:
    everyone = train()
    everyone.event(NOTE_EVENT)
    assert everyone.dropped == []
