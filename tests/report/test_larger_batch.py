"""What a tuning says of a larger batch: its own claim, in words, apart from that of the speed."""

import io

import msgspec
from rich.console import Console

from cards import HOSTILE, INERT, sections
from hasten.records.plan import NAIVE, Rung
from hasten.records.recipe import Evidence
from hasten.records.target import SeedToTarget, TimeToTarget
from hasten.records.trial import Outcome, Trial
from hasten.records.tuning import Spent
from hasten.report.card import tune_card
from hasten.report.markdown import tune_markdown
from hasten.report.page import tune_page
from hasten.tune.conclude import with_larger_batch
from hasten.tune.files import make_recipe, recipe_text
from specimens import NOTHING_TO_GAIN, PROVEN, SPEED, make_candidate, make_comparison

replace = msgspec.structs.replace

TITLE = "A larger batch: another training"
CLAIM = TimeToTarget(
    verdict="proven",
    ratio=2.9,
    low=2.1,
    high=4.0,
    confidence=0.9975,
    changes="512 rows a step instead of 64, learning rates x 2.828",
    steps=1024,
    higher=("accuracy",),
    seeds=tuple(
        SeedToTarget(
            seed=seed,
            target={"training loss": 0.4, "accuracy": 0.9},
            a_rows=60_000,
            b_rows=70_000,
        )
        for seed in range(5)
    ),
    speed=SPEED,
)


def trial(times: int, outcome: Outcome, why: str = "so", on: Evidence = PROVEN) -> Trial:
    candidate = replace(
        make_candidate("batch_size"),
        part={"times": times, "learning_rate": "sqrt"},
        rung=Rung.CHANGES_TRAINING,
    )
    target = CLAIM if outcome == "kept" else None
    comparison = make_comparison(3.5)
    return Trial(
        candidate=candidate,
        on=on.plan,
        outcome=outcome,
        why=why,
        comparison=comparison,
        target=target,
    )


def concluded(evidence: Evidence, *trials: Trial) -> Evidence:
    return with_larger_batch(evidence, trials, Spent())


def show(evidence: Evidence) -> str:
    console = Console(file=io.StringIO(), width=200, highlight=False)
    console.print(tune_card(evidence, "out"))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


BOTH = concluded(PROVEN, trial(8, "kept"), trial(16, "missed_target"))


def test_the_speed_at_the_own_batch_stays_the_first_claim() -> None:
    found = sections(show(BOTH))
    assert found[""][0].startswith("PROVEN  train.py:make_task trains 1.50x faster")
    lines = "\n".join(found[TITLE])
    assert "2.90x as soon (2.10x to 4.00x)" in lines
    assert "512 rows a step instead of 64, learning rates x 2.828" in lines
    assert "training loss 0.4, accuracy 0.9" in lines
    assert "5 seeds of 1,024 steps" in lines
    assert "the training loss and the evaluation" in lines
    assert "missed target" in lines


def test_where_nothing_else_was_proven_the_headline_says_that_it_is_another_training() -> None:
    only = concluded(NOTHING_TO_GAIN, trial(8, "kept", on=NOTHING_TO_GAIN))
    assert (only.outcome, only.verdict, only.plan) == ("recipe", "proven", NAIVE)
    head = " ".join(sections(show(only))[""])
    assert "is at its target 2.90x as soon (99 % interval 2.10x to 4.00x)" in head
    assert "faster" not in head
    text = show(only)
    assert "by another training: 512 rows a step instead of 64" in text
    again = "hasten tune train.py:make_task --allow batch-size --minutes 10 --seed 0 --out out"
    assert again in text
    assert tune_page(only, "out").count(again) == 1, "it is made and checked by the same command"
    assert "hasten prove" not in text


def test_a_batch_in_doubt_leaves_no_clear_answer_and_takes_none_back() -> None:
    assert concluded(NOTHING_TO_GAIN, trial(8, "no_verdict")).outcome == "unproven"
    assert concluded(NOTHING_TO_GAIN, trial(8, "missed_target")).outcome == "nothing_to_gain"
    assert concluded(PROVEN, trial(8, "no_verdict")).outcome == "recipe"


def test_a_training_loss_alone_is_called_that() -> None:
    seeds = tuple(replace(each, target={"training loss": 0.4}) for each in CLAIM.seeds)
    kept = replace(trial(8, "kept"), target=replace(CLAIM, seeds=seeds))
    assert "the training loss alone: the task has no evaluation data" in show(
        concluded(PROVEN, kept)
    )


def test_page_and_markdown_have_the_claim_its_seeds_and_every_batch() -> None:
    for text in (tune_page(BOTH, "out"), tune_markdown(BOTH, "out")):
        assert TITLE in text
        assert "2.90x as soon" in text
        assert "60,000" in text
        assert "70,000" in text
        assert "missed target" in text
        assert "--allow batch-size" in text
    none = tune_markdown(concluded(PROVEN, trial(8, "missed_target")), "out")
    assert "None was proven to be sooner at the target: the batch stays." in none
    assert TITLE not in tune_markdown(PROVEN, "out")


def test_hostile_reasons_stay_inert() -> None:
    hostile = concluded(PROVEN, trial(8, "failed", HOSTILE))
    assert INERT in show(hostile)
    bad = concluded(PROVEN, trial(8, "failed", "<script>alert(1)</script>"))
    assert "<script>" not in tune_page(bad, "out")


def test_the_recipe_names_what_it_changes_and_keeps_the_claims_apart() -> None:
    recipe = make_recipe(BOTH, "0" * 64)
    assert set(recipe.plan) == {*PROVEN.plan.parts, "batch_size"}
    assert recipe.speed is not None
    assert recipe.speed.ratio == PROVEN.speed.ratio if PROVEN.speed else False
    assert recipe.changes_training is not None
    assert recipe.changes_training.times_as_soon == 2.9
    head = recipe_text(recipe).splitlines()[:4]
    assert head[2] == f"# It changes the training: {CLAIM.changes}."
    assert "changes the training" not in recipe_text(make_recipe(PROVEN, "0" * 64))
