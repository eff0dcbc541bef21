"""A recipe that a person has edited: each slip is refused with the file, the key's path, the value
and what to write instead; by the readers that every command uses."""

from pathlib import Path

import pytest

from hasten.errors import HastenError
from hasten.records.recipe import read_recipe
from hasten.records.record import to_toml
from hasten.techniques.registry import decode, refuse_bad_parts
from specimens import RECIPE

PART = '[plan.compile]\nmode = "default"\n'
MODES = '"default" or "reduce-overhead" or "max-autotune" or "max-autotune-no-cudagraphs"'
PIECES = "a whole number, 1 to 1,000,000"
CAPTURES = "it captures graphs of its own, and these cannot lie within that of a whole step"
SCALE = "plan.mixed_precision.initial_scale"
STEPS = "plan.gradient_accumulation.steps"
ITEM = "a whole number of 64 bits or a number or text"
ANY = f"true or false or {ITEM} or a list ({ITEM} each)"
OWN = "If it is your own, import the file that registers it first."


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recipe.toml"


def write(path: Path, plan: str) -> None:
    text = to_toml(RECIPE)
    assert PART in text
    path.write_text(text.replace(PART, plan), encoding="utf-8")


def refusal(path: Path) -> HastenError:
    with pytest.raises(HastenError) as caught:
        decode(read_recipe(path).as_plan(), where=str(path))
    assert str(caught.value).isprintable()
    return caught.value


@pytest.mark.parametrize(
    ("plan", "what", "fix"),
    [
        (
            "[plan.compil]",
            "technique 'plan.compil' is not known.",
            f"Did you mean 'plan.compile'? {OWN}",
        ),
        (
            "[plan.fused-optimizer]",
            "technique 'plan.fused-optimizer' is not known.",
            f"Did you mean 'plan.fused_optimizer'? {OWN}",
        ),
        (
            '[plan.compile]\nmod = "default"',
            "key 'plan.compile.mod' is not known.",
            "Did you mean 'plan.compile.mode'?",
        ),
        (
            '[plan.compile]\n_target_ = "os.system"',
            "key 'plan.compile._target_' is not known.",
            "Known: backend, cache_dir, mode, regions.",
        ),
        (
            "[plan.resident_data]\nsize = 3",
            "key 'plan.resident_data.size' is not known.",
            "Take it out: plan.resident_data has no settings.",
        ),
        (
            '[plan.gradient_accumulation]\nsteps = "4"',
            f'{STEPS} = "4" is text; it takes {PIECES}.',
            "Write 4.",
        ),
        (
            '[plan.gradient_accumulation]\nsteps = "four"',
            f'{STEPS} = "four" is text; it takes {PIECES}.',
            "Write a value of that kind.",
        ),
        (
            "[plan.gradient_accumulation]\nsteps = 3.7",
            f"{STEPS} = 3.7 is a number; it takes {PIECES}.",
            "Write 4.",
        ),
        (
            "[plan.gradient_accumulation]\nsteps = true",
            f"{STEPS} = true is a boolean; it takes {PIECES}.",
            "Write 1.",
        ),
        (
            "[plan.gradient_accumulation]\nsteps = [4]",
            f"{STEPS} = [4] is a list; it takes {PIECES}.",
            "Write a value of that kind.",
        ),
        (
            "[plan.gradient_accumulation]\nsteps = -3",
            f"{STEPS} = -3 is not allowed; it takes {PIECES}.",
            "Write 1.",
        ),
        (
            "[plan.loader_workers]\nworkers = 1000000000",
            "plan.loader_workers.workers = 1000000000 is not allowed;"
            " it takes a whole number, 1 to 1,024.",
            "Write 1024.",
        ),
        (
            f"[plan.gradient_accumulation]\nsteps = {2**70}",
            f"{STEPS} = {2**70} is not allowed; it takes {ANY}.",
            "Write a value of that kind.",
        ),
        (
            "[plan.mixed_precision]\ninitial_scale = inf",
            f"{SCALE} = inf is not allowed; it takes a number, 1 to 1e+20.",
            "Write 1e+20.",
        ),
        (
            "[plan.mixed_precision]\ninitial_scale = nan",
            f"{SCALE} = nan is not allowed; it takes a number, 1 to 1e+20.",
            "Write a value of that kind.",
        ),
        (
            '[plan.compile]\nmode = "reduce_overhead"',
            f'plan.compile.mode = "reduce_overhead" is not known; it takes {MODES}.',
            'Write "reduce-overhead".',
        ),
        (
            '[plan.compile]\nmode = "turbo"',
            f'plan.compile.mode = "turbo" is not known; it takes {MODES}.',
            "Write one of these.",
        ),
        (
            "[plan.compile]\nmode = true",
            f"plan.compile.mode = true is not known; it takes {MODES}.",
            "Write one of these.",
        ),
        (
            "[plan.compile]\ncache_dir = 3",
            "plan.compile.cache_dir = 3 is a whole number; it takes text.",
            'Write "3".',
        ),
        (
            "[plan.compile]\nmode = 2024-01-01",
            f"plan.compile.mode = 2024-01-01 is a date or time; it takes {ANY}.",
            "Write a value of that kind.",
        ),
        (
            "[plan]\ncompile = true",
            "plan.compile = true is a boolean; it takes a table.",
            "In TOML that is a line [plan.compile], with its keys below it.",
        ),
        (
            '[plan.compile]\nmode = "reduce-overhead"\n[plan.whole_step_graph]',
            f'plan.compile.mode = "reduce-overhead" cannot be beside plan.whole_step_graph:'
            f" {CAPTURES}.",
            'Write "default", or take plan.whole_step_graph out.',
        ),
        (
            '[plan.compile]\nmode = "max-autotune"\n[plan.whole_step_graph]',
            f'plan.compile.mode = "max-autotune" cannot be beside plan.whole_step_graph:'
            f" {CAPTURES}.",
            'Write "max-autotune-no-cudagraphs", or take plan.whole_step_graph out.',
        ),
        (
            '[plan.compile]\nmode = "max-autotune"\nbackend = "eager"',
            'plan.compile: mode = "max-autotune" cannot be beside backend = "eager",'
            ' which has only "default".',
            "Change one of them, or take it out.",
        ),
    ],
)
def test_a_slip_in_the_plan_is_refused_with_what_to_write(
    plan: str, what: str, fix: str, path: Path
) -> None:
    write(path, plan)
    error = refusal(path)
    assert error.what == f"{path}: {what}"
    assert error.fix == fix


@pytest.mark.parametrize(
    ("before", "after", "what", "fix"),
    [
        (
            "format = 1",
            "format = '1'",
            ': format = "1" is text; it takes a whole number.',
            "Write 1.",
        ),
        (
            "format = 1",
            "format = 0",
            ": format = 0 is not known; this Hasten reads 1.",
            "Run hasten tune again.",
        ),
        (
            f'"{"0" * 64}"',
            '"0123"',
            ': evidence_sha256 = "0123" is not allowed; it takes text of the form [0-9a-f]{64}.',
            "Write a value of that kind.",
        ),
        (
            "[plan.compile]",
            "[plann.compile]",
            ": key 'plann' is not known.",
            "Did you mean 'plan'?",
        ),
        (
            'mode = "default"',
            "mode = default",
            " is not TOML: Invalid value (at line 13, column 8).",
            "Mend that line: mode = default. Text stands in quotes, true and false without.",
        ),
    ],
)
def test_a_slip_around_the_plan_is_refused_with_what_to_write(
    before: str, after: str, what: str, fix: str, path: Path
) -> None:
    text = to_toml(RECIPE)
    assert before in text
    path.write_text(text.replace(before, after, 1), encoding="utf-8")
    error = refusal(path)
    assert error.what == f"{path}{what}"
    assert error.fix == fix


def test_a_name_without_end_is_shown_in_part(path: Path) -> None:
    write(path, f"[plan.{'a' * 500_000}]")
    assert len(refusal(path).what) < len(str(path)) + 150


def test_a_hostile_line_that_is_not_toml_stays_text(path: Path) -> None:
    path.write_text("format = \x1b[2J\n")
    assert refusal(path).fix.startswith('Mend that line: "format = \\u001b[2J".')


def test_what_is_known_to_be_wrong_is_refused_though_other_parts_are_not_known_yet(
    path: Path,
) -> None:
    write(path, "[plan.of_the_task]\n")
    refuse_bad_parts(read_recipe(path).as_plan(), where=str(path))
    write(path, "[plan.of_the_task]\n[plan.compile]\nmode = 3\n")
    with pytest.raises(HastenError, match="mode = 3 is not known"):
        refuse_bad_parts(read_recipe(path).as_plan(), where=str(path))


@pytest.mark.parametrize(
    "plan",
    [
        "[plan]\n",
        "[plan.compile]\n",
        '[plan.compile]\nbackend = "eager"\n',
        "[plan.mixed_precision]\ninitial_scale = 1024\n",
        "[plan.gradient_accumulation]\nsteps = 1000000\n",
        '[plan.compile]\nmode = "max-autotune-no-cudagraphs"\n[plan.whole_step_graph]\n',
    ],
)
def test_an_edit_that_is_allowed_is_taken(plan: str, path: Path) -> None:
    write(path, plan)
    decode(read_recipe(path).as_plan(), where=str(path))
