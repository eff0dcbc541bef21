"""Bad input, by the real command in a real process: a clear message, exit 2, nothing written."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from hasten.host.environment import read_environment
from hasten.records.plan import RawPart, Rung
from hasten.records.recipe import RECIPE_FORMAT, Recipe, RecipeNumerics, RecipeSpeed
from hasten.tune.files import recipe_text
from terminal import run_on_terminal

PLANTED = Path(__file__).parents[1] / "tasks" / "planted.py"
BROKEN = PLANTED.with_name("broken.py")


def _hasten(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hasten", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
    )


def _recipe(plan: dict[str, RawPart], cpu: str | None = None) -> str:
    environment = read_environment()
    if cpu is not None:
        environment = msgspec.structs.replace(environment, cpu=cpu)
    recipe = Recipe(
        format=RECIPE_FORMAT,
        task="planted",
        created="2026-01-01T00:00:00+00:00",
        hasten="0",
        evidence_sha256="0" * 64,
        plan=plan,
        speed=RecipeSpeed(verdict="proven", ratio=1.1, low=1.05, high=1.15),
        numerics=RecipeNumerics(verdict="proven", rung=Rung.BITWISE),
        environment=environment,
    )
    return recipe_text(recipe)


@pytest.mark.parametrize(
    ("task", "message", "detail"),
    [
        ("no_such_file.py:make", "There is no file 'no_such_file.py'", ""),
        ("no.such.module:make", "There is no module 'no'", "in the folder that it lies in"),
        ("bloom", "'bloom' does not name a task", "gallery:bloom"),
        ("gallery:blom", "gallery workload 'blom' is not known", "Did you mean 'bloom'?"),
        (f"{PLANTED}:smal", "function 'smal' is not known", "Did you mean 'small'?"),
        (f"{BROKEN}:not_a_task", "returned a dict, not a hasten.Task", "hasten.Task(model="),
        (f"{BROKEN}:raises_while_building", "raised while it built the task", "no column 'label'"),
        (f"{BROKEN}:model_raises", "does not run one step", "expected 3 channels, got 16"),
        (f"{BROKEN}:loses_its_number", "the loss of the first batch is nan", "mend it first"),
        (f"{BROKEN}:evaluates_on_nothing", "The evaluation data gives no batch", "leave it out"),
        (f"{BROKEN}:evaluates_on_an_empty_stream", "The evaluation data gives no batch", ""),
        (f"{BROKEN}:evaluation_data_raises", "shapes (4, 16), (5,)", "equal first dimension"),
        (f"{BROKEN}:kills_itself", "ended unexpectedly (signal 9)", ""),
    ],
)
def test_a_bad_task_is_said_before_anything_is_written(
    task: str, message: str, detail: str, tmp_path: Path
) -> None:
    ended = _hasten("tune", task, "--out", "made", folder=tmp_path)
    assert ended.returncode == 2, ended.stderr
    assert message in ended.stderr
    assert detail in ended.stderr
    assert ended.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_does_not_import_shows_the_users_own_traceback(tmp_path: Path) -> None:
    task = tmp_path / "broken.py"
    task.write_text("import json\n\nnumbers = [1, 2]\nnumbers[5]\ndef make(): ...\n")
    ended = _hasten("tune", "broken.py:make", folder=tmp_path)
    assert ended.returncode == 2
    assert 'broken.py", line 4' in ended.stderr
    assert "IndexError: list index out of range" in ended.stderr
    assert "hasten/task" not in ended.stderr, "our own frames are of no use to the user"
    assert {path.name for path in tmp_path.iterdir()} <= {"broken.py", "__pycache__"}


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            ("[plan.batched_loader]", "[plan.batched_loadr]"),
            "technique 'plan.batched_loadr' is not known. Did you mean 'plan.batched_loader'?",
        ),
        (
            ("[plan.batched_loader]", '[plan.compile]\nmoed = "default"'),
            "key 'plan.compile.moed' is not known. Did you mean 'plan.compile.mode'?",
        ),
        (
            (
                "[plan.batched_loader]",
                '[plan.compile]\nmode = "reduce-overhead"\n[plan.whole_step_graph]',
            ),
            'plan.compile.mode = "reduce-overhead" cannot be beside plan.whole_step_graph',
        ),
        (("format = 1", "formt = 1"), "key 'formt' is not known. Did you mean 'format'?"),
        (
            ("[plan.batched_loader]", "[plan.gradient_accumulation]\nsteps = 0"),
            "plan.gradient_accumulation.steps = 0 is not allowed; it takes a whole number, "
            "1 to 1,000,000. Write 1.",
        ),
        (
            ("ratio = 1.1\n", ""),
            "key 'speed.ratio' is missing. Add it, or have the file written anew.",
        ),
        (("format = 1", "format = = 1"), "recipe.toml is not TOML: Invalid value (at line "),
    ],
)
@pytest.mark.parametrize("command", ["bench", "prove", "train"])
def test_a_bad_recipe_is_refused_with_the_path_of_the_key(
    command: str, edit: tuple[str, str], message: str, tmp_path: Path
) -> None:
    text = _recipe({"batched_loader": {}})
    assert edit[0] in text
    (tmp_path / "recipe.toml").write_text(text.replace(*edit))
    arms = {
        "bench": ["naive", "recipe.toml"],
        "prove": ["recipe.toml"],
        "train": ["--recipe", "recipe.toml"],
    }
    ended = _hasten(command, f"{PLANTED}:small", *arms[command], folder=tmp_path)
    assert ended.returncode == 2
    error, fix = ended.stderr.splitlines()[-2:]
    assert error.startswith("error: recipe.toml")
    assert message in f"{error} {fix.strip()}"
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.toml"]


@pytest.mark.parametrize(
    ("path", "what", "give"),
    [
        ("nowhere.toml", "No such file or directory", "the recipe.toml that hasten tune wrote"),
        (".", "it is a folder", "recipe.toml"),
    ],
)
def test_a_recipe_that_is_no_file_is_not_trained_by(
    path: str, what: str, give: str, tmp_path: Path
) -> None:
    ended = _hasten("train", f"{PLANTED}:small", "--recipe", path, folder=tmp_path)
    assert ended.returncode == 2
    error, fix = ended.stderr.splitlines()
    assert error.startswith(f"error: The recipe {path} cannot be read: ")
    assert what in error
    assert fix == f"       Give {give}."


def test_a_recipe_from_another_machine_is_not_benched_before_it_is_proven_here(
    tmp_path: Path,
) -> None:
    (tmp_path / "recipe.toml").write_text(_recipe({"batched_loader": {}}, cpu="Cray-1"))
    ended = _hasten("bench", f"{PLANTED}:small", "naive", "recipe.toml", folder=tmp_path)
    assert ended.returncode == 2
    assert "another machine (cpu: Cray-1, here " in ended.stderr
    assert "hasten prove TASK recipe.toml" in ended.stderr


def test_an_unknown_arm_shows_what_there_is(tmp_path: Path) -> None:
    ended = _hasten("bench", f"{PLANTED}:small", "naive", "extreme", folder=tmp_path)
    assert ended.returncode == 2
    assert "arm 'extreme' is not known" in ended.stderr
    assert "advanced" in ended.stderr


@pytest.mark.parametrize(
    "arguments",
    [["tune"], ["tune", "gallery:bloom", "--minutes", "-3"], ["tune", "x", "--no-such"], ["fly"]],
)
def test_a_wrong_command_line_exits_2(arguments: list[str], tmp_path: Path) -> None:
    ended = _hasten(*arguments, folder=tmp_path)
    assert ended.returncode == 2
    assert "Error" in ended.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "given", "range_of_it"),
    [
        ("tune", "nan", "0.1<=x<=525600"),
        ("tune", "inf", "0.1<=x<=525600"),
        ("tune", "1e300", "0.1<=x<=525600"),
        ("prove", "nan", "0<x<=525600"),
        ("prove", "inf", "0<x<=525600"),
    ],
)
def test_minutes_without_an_end_are_refused(
    command: str, given: str, range_of_it: str, tmp_path: Path
) -> None:
    recipe = ["recipe.toml"] if command == "prove" else []
    ended = _hasten(command, f"{PLANTED}:small", *recipe, "--minutes", given, folder=tmp_path)
    assert ended.returncode == 2
    assert f"Invalid value for '--minutes': {given}" in ended.stderr.replace("e+", "e")
    assert f"is not in the range {range_of_it}." in ended.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seed", ["-1", str(2**63), "99999999999999999999999999"])
@pytest.mark.parametrize(
    "command",
    [["tune"], ["train"], ["profile"], ["bench", "naive", "basic"], ["prove", "recipe.toml"]],
)
def test_a_seed_that_generators_do_not_take_is_refused(
    command: list[str], seed: str, tmp_path: Path
) -> None:
    name, *arguments = command
    ended = _hasten(name, f"{PLANTED}:small", *arguments, "--seed", seed, folder=tmp_path)
    assert ended.returncode == 2
    assert f"Invalid value for '--seed': {seed} is not in the range 0<=x<=" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_largest_seed_is_one_of_every_kind(tmp_path: Path) -> None:
    task = f"{PLANTED}:small"
    trained = _hasten("train", task, "--steps", "2", "--seed", str(2**63 - 1), folder=tmp_path)
    assert trained.returncode == 0, trained.stderr
    profiled = _hasten("profile", task, "--data", "--seed", str(2**63 - 1), folder=tmp_path)
    assert profiled.returncode == 0, profiled.stderr


@pytest.mark.parametrize(
    ("memory", "error"),
    [("0", "'0' is no memory at all."), ("-1GB", "'-1GB' is not a size.")],
)
def test_a_limit_that_no_step_can_keep_is_refused_at_once(
    memory: str, error: str, tmp_path: Path
) -> None:
    ended = _hasten("tune", f"{PLANTED}:small", "--memory", memory, folder=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"error: {error}"), "before anything is built"
    assert list(tmp_path.iterdir()) == []


def test_an_out_that_is_a_file_is_refused_before_measuring(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    ended = _hasten("tune", f"{PLANTED}:small", "--out", "taken", folder=tmp_path)
    assert ended.returncode == 2
    assert "taken is not a folder" in ended.stderr
    assert (tmp_path / "taken").read_text() == "mine"


def test_with_json_the_error_is_a_document_too(tmp_path: Path) -> None:
    ended = _hasten("tune", "gallery:blom", "--json", folder=tmp_path)
    assert ended.returncode == 2
    document = json.loads(ended.stdout)
    assert document["error"] == "gallery workload 'blom' is not known."
    assert document["fix"] == "Did you mean 'bloom'?"


@pytest.mark.parametrize(
    ("arguments", "error", "command"),
    [
        (["train", "x", "--no-such"], "No such option '--no-such'.", "hasten train"),
        (["train", "x", "--level", "much"], "Invalid value for '--level'", "hasten train"),
        (["prove", "x"], "Missing argument 'RECIPE'.", "hasten prove"),
        (["fly"], "No such command 'fly'.", "hasten"),
    ],
)
def test_with_json_a_wrong_command_line_is_a_document_too(
    arguments: list[str], error: str, command: str, tmp_path: Path
) -> None:
    ended = _hasten(*arguments, "--json", folder=tmp_path)
    assert ended.returncode == 2
    document = json.loads(ended.stdout)
    assert document["error"].startswith(error)
    assert document["fix"] == f"Try 'python -m {command} --help' for help."
    assert document["detail"] == ""
    assert f"Error: {error}" in ended.stderr


FAULTY = """
import sys
from hasten.cli import main
from hasten.host import environment
sys.argv = ["hasten", "env", *sys.argv[1:]]
environment.read_environment = lambda: 1 / 0
main.main()
"""


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_fault_of_ours_is_a_document_too_where_one_is_asked_for(
    flags: list[str], tmp_path: Path
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FAULTY, *flags], cwd=tmp_path, capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("Traceback")
    assert ended.stderr.endswith("fault of Hasten; please report it with the lines above\n")
    if not flags:
        assert ended.stdout == ""
        return
    document = json.loads(ended.stdout)
    assert document["error"] == "this is a fault of Hasten."
    assert document["fix"] == "Please report it with the detail."
    assert document["detail"].endswith("ZeroDivisionError: division by zero\n")


def test_a_result_that_cannot_be_written_is_a_fault() -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "hasten", "env"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: The result could not be written to stdout: No space")


def test_a_wrong_command_line_that_cannot_be_told_is_still_a_fault() -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run([sys.executable, "-m", "hasten", "train", "--bad"], stderr=full)
    assert ended.returncode == 2


@pytest.mark.parametrize("name", ["\x1b[31mred", "\x9b31mred", "\rover"])
def test_a_hostile_name_does_not_drive_the_terminal_of_who_reads_an_error(
    name: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "hasten", "train", "gallery:bloom"]
    flags = ["--resume", "--checkpoint-dir", name]
    code, written = run_on_terminal([*command, *flags], 80, folder=tmp_path)
    assert code == 2
    assert "error: There is no folder ?" in written
    code, written = run_on_terminal([*command, f"--level={name}"], 80, folder=tmp_path)
    assert code == 2
    assert name not in written


def test_an_empty_path_is_not_the_folder_one_is_in(tmp_path: Path) -> None:
    ended = _hasten("tune", f"{PLANTED}:small", "--out", "", folder=tmp_path)
    assert ended.returncode == 2
    assert "error: --out is empty." in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_env_says_what_it_sees(tmp_path: Path) -> None:
    document = json.loads(_hasten("env", "--json", folder=tmp_path).stdout)
    assert document["environment"]["cores_allowed"] >= 1
    names = {technique["name"] for technique in document["techniques"]}
    assert names >= {"batched_loader", "compile", "fused_optimizer"}
    text = _hasten("env", folder=tmp_path).stdout
    assert document["fingerprint"] in text
    assert "may be used by this process" in text
