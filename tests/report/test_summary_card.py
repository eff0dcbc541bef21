"""The card of a training."""

import io
from typing import Any

import msgspec
import pytest
from rich.console import Console

from hasten.records.applied import Applied
from hasten.records.measurement import Memory
from hasten.records.training import RecipeClaim, TrainingSummary
from hasten.report.summary import summary_card
from specimens import SUMMARY

replace = msgspec.structs.replace

GO_ON = "hasten train train.py:make_task --epochs 10 --checkpoint-dir out --resume"
HOSTILE = "\x1b[2J[bold]x[/nothing] :bug:\n\r"
INERT = "?[2J[bold]x[/nothing] :bug:??"


def show(summary: TrainingSummary, go_on: str = GO_ON, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(summary_card(summary, go_on=go_on), crop=False)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def lines(**fields: Any) -> list[str]:
    shown = show(replace(SUMMARY, **fields)).splitlines()
    return [" ".join(line.split()) for line in shown if line.strip()]


def test_the_card_says_what_ended_and_why() -> None:
    assert lines()[:2] == [
        "DONE train.py:make_task: 640 steps, 10 epochs",
        "all 10 epochs are done",
    ]
    assert lines(task=None, step=1, epoch=1)[0] == "DONE the training: 1 step, 1 epoch"


def test_the_card_has_all_its_figures() -> None:
    text = lines()
    for line in (
        "training loss 0.123",
        "evaluation loss=0.2, dice=0.91",
        "checkpoint out/step-640",
        "log out/events.jsonl",
        "throughput 14,550 rows/s",
        "data wait 3.4 % of the time",
        "peak memory 361 MiB of the process",
        "took 30 s, 40,960 rows",
        "batched_loader done whole batches",
        "compile fell back no compiler",
        "compile fell back",
    ):
        assert line in text, line


def test_the_speed_is_held_against_what_the_recipe_claims() -> None:
    assert (
        "the recipe 97 % of the 15,000 rows/s at which recipe.toml was proven 1.50x as fast as the"
        " naive training"
    ) in lines()


@pytest.mark.parametrize("rows_per_s", [None, 0.0, -1.0, float("nan"), float("inf")])
def test_a_recipe_that_does_not_say_is_said_not_to(rows_per_s: float | None) -> None:
    claim = RecipeClaim(path="recipe.toml", ratio=1.5, rows_per_s=rows_per_s)
    (line,) = (each for each in lines(claim=claim) if each.startswith("the recipe"))
    assert line.endswith("at how many rows/s the recipe does not say")


def test_without_a_recipe_nothing_is_claimed() -> None:
    assert "recipe" not in show(replace(SUMMARY, claim=None))


def test_the_naive_training_has_nothing_applied() -> None:
    assert "Nothing: this was the naive training." in lines(applied=(), plan={})


def test_what_was_skipped_says_why() -> None:
    skipped = Applied(technique="attention", outcome="skipped", why="no attention in the model")
    assert "attention skipped no attention in the model" in lines(applied=(skipped,))


def test_a_done_training_says_how_to_use_its_weights_first() -> None:
    assert lines()[-4:] == [
        "use it:",
        "model.load_state_dict(safetensors.torch.load_file('out/step-640/model.safetensors'))",
        "train on, here to twice as much:",
        GO_ON,
    ]


@pytest.mark.parametrize("outcome", ["done", "stopped"])
def test_weights_that_are_not_finite_are_not_offered(outcome: str) -> None:
    text = lines(healthy=False, outcome=outcome)
    assert "checkpoint out/step-640, NOT HEALTHY: a weight is not finite" in text
    assert text[-3:] == [
        "The last weights are not finite: training never goes on from them.",
        "go on from the last checkpoint that is healthy:",
        GO_ON,
    ]
    assert not any("load_state_dict" in line for line in text)


def test_a_stopped_training_says_how_to_resume_first() -> None:
    text = lines(outcome="stopped", why="Ctrl-C", signal=2, resumed_from=320)
    assert text[:2] == ["STOPPED train.py:make_task: 640 steps, 10 epochs", "Ctrl-C"]
    assert text[-4:-1] == ["resume:", GO_ON, "use it:"]
    assert text[-1].startswith("model.load_state_dict")
    assert "took 30 s, 40,960 rows since it was resumed at step 320" in text


def test_without_an_evaluation_the_card_says_why() -> None:
    card = summary_card(replace(SUMMARY, metrics={}), no_evaluation="none; no data")
    console = Console(file=io.StringIO(), width=80)
    console.print(card)
    assert isinstance(console.file, io.StringIO)
    assert "  evaluation     none; no data\n" in console.file.getvalue()


def test_names_of_metrics_may_have_spaces() -> None:
    assert "evaluation top 1=0.5, mean dice=0.25" in lines(
        metrics={"top 1": 0.5, "mean dice": 0.25}
    )


@pytest.mark.parametrize("outcome", ["done", "stopped"])
def test_without_a_checkpoint_the_card_says_that_nothing_was_saved(outcome: str) -> None:
    text = lines(outcome=outcome, checkpoint=None, log=None)
    assert text[-1].startswith("Nothing was saved. Train with --checkpoint-dir")
    assert "checkpoint none" in text


def test_figures_that_are_missing_or_no_numbers_are_shown() -> None:
    text = lines(loss=float("nan"), metrics={"dice": None}, memory=Memory())
    assert "training loss nan" in text
    assert "evaluation dice=-" in text
    assert "peak memory not measured" in text


def test_what_is_to_be_copied_is_on_one_line_however_long_it_is() -> None:
    path = "a/long folder/" * 8
    summary = replace(SUMMARY, checkpoint=path, log=f"{path}events.jsonl")
    text = show(summary, go_on=f"hasten train x --checkpoint-dir '{path}'", width=60)
    narrow = [line.rstrip() for line in text.splitlines()]
    assert f"  checkpoint     {path}" in narrow
    assert f"  log            {path}events.jsonl" in narrow
    assert f"    hasten train x --checkpoint-dir '{path}'" in narrow
    load = f"model.load_state_dict(safetensors.torch.load_file('{path}/model.safetensors'))"
    assert f"    {load}" in narrow


def test_what_is_to_be_read_keeps_within_the_page_and_below_itself() -> None:
    text = show(replace(SUMMARY, notes=("one word after another " * 8,)), width=60)
    assert "the recipe   97 % of the 15,000 rows/s at which\n               recipe.toml was" in text
    notes = text.partition("Notes\n")[2].partition("\n\n")[0].splitlines()
    assert len(notes) > 2
    assert all(line.startswith("  ") and len(line.rstrip()) <= 60 for line in notes)


def test_hostile_names_are_shown_inert() -> None:
    applied = Applied(technique=HOSTILE, outcome="done", why=HOSTILE)
    summary = replace(
        SUMMARY,
        task=HOSTILE,
        why=HOSTILE,
        metrics={HOSTILE: 1.0},
        applied=(applied,),
        claim=RecipeClaim(path=HOSTILE, ratio=1.0, rows_per_s=1.0),
        checkpoint=HOSTILE,
        log=HOSTILE,
        notes=(HOSTILE,),
    )
    text = show(summary, go_on=HOSTILE)
    assert all(line.isprintable() for line in text.split("\n"))
    assert text.count(INERT) >= 9
    assert "🐛" not in text
