"""The public face: names, commands, options. What is frozen here is a promise."""

import ast
import importlib
import importlib.metadata
import inspect
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import hasten
from hasten.cli.main import hasten as group

PACKAGE = Path(hasten.__file__).parent

COMMANDS = {
    "bench": ["TASK", "A", "B", "--save", "--against", "--inference", "--seed", "--json"],
    "cache clear": ["--yes", "--folder", "--json"],
    "cache ls": ["--folder", "--json"],
    "cache prune": ["--limit", "--older-than", "--folder", "--json"],
    "cache verify": ["--folder", "--json"],
    "env": ["--json"],
    "explain": ["NAME", "--json"],
    "gallery": ["--json"],
    "profile": ["TASK", "--recipe", "--trace", "--data", "--seed", "--json"],
    "prove": ["TASK", "RECIPE", "--seed", "--resume", "--minutes", "--json"],
    "scan": [
        "PATHS",
        "--format",
        "--select",
        "--ignore",
        "--fix",
        "--unsafe",
        "--diff",
        "--prove",
        "--json",
    ],
    "train": [
        "TASK",
        "--recipe",
        "--level",
        "--mixed-precision",
        "--compile-model",
        "--gradient-checkpointing",
        "--epochs",
        "--steps",
        "--checkpoint-dir",
        "--checkpoint-every",
        "--resume",
        "--deterministic",
        "--log-every",
        "--evaluate-every",
        "--seed",
        "--json",
    ],
    "tune": ["TASK", "--out", "--minutes", "--goal", "--memory", "--allow", "--seed", "--json"],
}
"""Arguments and options of every command, in order."""


def commands_of(group: click.Group, before: str = "") -> dict[str, click.Command]:
    """By their words, those of a group under the group's."""
    found: dict[str, click.Command] = {}
    for name, command in group.commands.items():
        words = f"{before}{name}"
        inner = isinstance(command, click.Group)
        found |= commands_of(command, f"{words} ") if inner else {words: command}
    return found


ALL_COMMANDS = commands_of(group)

NAMES = [
    "CannotApply",
    "DataPipelineOptimizer",
    "DatasetCache",
    "Effect",
    "Every",
    "HastenError",
    "MemoryFormat",
    "Metric",
    "ModelOptimizer",
    "OptimizationLevel",
    "Part",
    "PerformanceConfig",
    "PerformanceOptimizer",
    "Pipeline",
    "Plan",
    "Run",
    "Rung",
    "Stage",
    "Task",
    "Technique",
    "TrainingOptimizer",
    "create_optimized_dataloader",
    "evaluate",
    "fit",
    "profiled",
    "register_technique",
]


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def type_checking_names() -> set[str]:
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert len(imports) == len(block.body)
    for node in imports:
        for alias in node.names:
            assert alias.asname == alias.name  # else type checkers take it for a private one
            assert hasten._HOMES[alias.name] == node.module
    return {alias.name for node in imports for alias in node.names}


def parameters(command: click.Command) -> list[str]:
    return [
        each.opts[0] if isinstance(each, click.Option) else (each.name or "").upper()
        for each in command.params
    ]


def test_importing_hasten_imports_no_torch() -> None:
    code = "import sys, hasten; sys.exit('torch' in sys.modules)"
    assert run_python("-c", code).returncode == 0
    assert run_python("-c", code.replace("hasten;", "hasten, torch;")).returncode == 1


def test_the_techniques_are_known_without_torchs_compiler() -> None:
    """Which takes as long to import as torch itself."""
    code = "import sys, hasten.config; sys.exit('torch._dynamo' in sys.modules)"
    assert run_python("-c", code).returncode == 0


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], *([*c.split(), "--help"] for c in COMMANDS)]
)
def test_help_imports_no_torch(arguments: list[str]) -> None:
    done = run_python("-X", "importtime", "-m", "hasten", *arguments)
    assert done.returncode == 0
    assert done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "hasten.cli.main" in imported
    assert not {name for name in imported if name.partition(".")[0] in ("torch", "numpy")}


def test_the_public_names_are_these() -> None:
    assert hasten.__all__ == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_the_thing_from_its_home(name: str) -> None:
    thing = getattr(hasten, name)
    assert thing is getattr(importlib.import_module(hasten._HOMES[name]), name)
    assert not inspect.ismodule(thing)


def test_type_checkers_see_the_same_names() -> None:
    assert type_checking_names() == set(hasten.__all__)


def test_no_public_name_is_also_a_module() -> None:
    """Importing a module sets it on the package, where it would then hide the public name."""
    modules = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert not modules & set(hasten.__all__)
    assert {"tune", "flow", "records"} <= modules


def test_the_public_names_are_listed_by_dir_and_taken_by_a_star() -> None:
    assert set(hasten.__all__) <= set(dir(hasten))
    code = "from hasten import *; print(Task.__name__, PerformanceConfig.__name__)"
    assert run_python("-c", code).stdout.split() == ["Task", "PerformanceConfig"]


def test_an_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'hasten' has no attribute 'Taks'"):
        hasten.Taks  # noqa: B018
    assert not hasattr(hasten, "_private")
    with pytest.raises(ImportError):
        from hasten import Taks  # noqa: F401


def test_the_commands_are_these() -> None:
    assert sorted(ALL_COMMANDS) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_of_a_command_are_these(name: str) -> None:
    assert parameters(ALL_COMMANDS[name]) == COMMANDS[name]


@pytest.mark.parametrize("name", sorted(ALL_COMMANDS))
def test_every_command_has_json(name: str) -> None:
    options = {option for each in ALL_COMMANDS[name].params for option in each.opts}
    assert "--json" in options


@pytest.mark.parametrize("name", sorted(ALL_COMMANDS))
def test_every_option_says_what_it_is(name: str) -> None:
    options = [each for each in ALL_COMMANDS[name].params if isinstance(each, click.Option)]
    assert all(option.help for option in options)


@pytest.mark.parametrize("name", ["", *sorted({*group.commands, *ALL_COMMANDS})])
def test_the_help_of_a_command_fits_a_screen(name: str) -> None:
    runner = CliRunner()
    shown = runner.invoke(group, [*name.split(), "--help"], terminal_width=80)
    assert shown.exit_code == 0
    lines = shown.output.splitlines()
    assert 3 < len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_help_has_two_spellings() -> None:
    short, long = (run_python("-m", "hasten", flag).stdout for flag in ("-h", "--help"))
    assert short == long
    assert short.startswith("Usage:")


def test_no_setting_is_read_from_an_environment_variable() -> None:
    for command in (group, *group.commands.values(), *ALL_COMMANDS.values()):
        assert command.context_settings.get("auto_envvar_prefix") is None
        assert all(each.envvar is None for each in command.params)


def test_the_version_is_one() -> None:
    assert run_python("-m", "hasten", "--version").stdout.split()[-1] == hasten.__version__
    assert importlib.metadata.version("hasten") == hasten.__version__
