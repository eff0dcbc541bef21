"""``hasten train``: what its flags ask of a training, and what it says of how that ended.

The training is a stand-in; what it is asked is the real thing.
"""

import json
import signal
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
from hasten.records.record import digest_of, to_toml
from hasten.records.training import RecipeClaim, TrainingSummary
from hasten.records.tuning import Aim
from hasten.report.training import TrainingDisplay
from hasten.train.every import Every
from hasten.train.fit import Wanted
from hasten.train.signals import StopRequest
from hasten.train.sinks import Sink
from specimens import RECIPE, SUMMARY

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


def test_a_recipe_whose_plan_was_edited_claims_nothing(fit: Fit, tmp_path: Path) -> None:
    proven = digest_of(RECIPE.as_plan())
    train("--recipe", write_recipe(tmp_path, plan_sha256=proven))
    assert fit.wanted.claim is not None
    path = write_recipe(tmp_path, plan_sha256=proven, plan={"batched_loader": {}})
    ended = train("--recipe", path)
    assert fit.asked[-1].plan == Plan(parts={"batched_loader": {}})
    assert fit.asked[-1].claim is None
    assert "was edited since it was proven" in ended.stderr
    assert f"hasten prove t.py:make {path}" in " ".join(ended.stderr.split())


def test_a_recipe_that_was_made_for_memory_claims_no_speed(fit: Fit, tmp_path: Path) -> None:
    slower = replace(RECIPE.speed, verdict="refuted", ratio=0.8, low=0.7, high=0.9)
    ended = train("--recipe", write_recipe(tmp_path, speed=slower, aim=Aim(goal="memory")))
    assert fit.wanted.claim is None
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
