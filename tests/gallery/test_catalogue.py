"""What is asked of every bundled workload: what it says of itself, its page, its plain script."""

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hasten.gallery
from hasten.gallery.catalogue import read_catalogue

FOLDER = Path(hasten.gallery.__file__).parent
PAGES = Path(__file__).parents[2] / "docs/gallery"
NAMES = sorted(each.name for each in FOLDER.iterdir() if (each / "__init__.py").is_file())
SECTIONS = [
    "## What the field does with it",
    "## The data",
    "## The model",
    "## How well it should do",
    "## What is wrong with the script",
]
GENERATORS_IMPORT = {"numpy", "torch", *sys.stdlib_module_names}
"""Beside hasten.errors and hasten.host."""
NO_GENERATORS = {"about", "model", "naive", "task"}
"""Of a workload's modules: the script has a model and a loop of its own."""


def imports_of(path: Path) -> Iterator[str]:
    """The modules that a file imports, by their full names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where they lead"
            module = node.module or ""
            is_workload = module.removeprefix("hasten.gallery.") in NAMES
            names = [f"{module}.{alias.name}" for alias in node.names]
            yield from names if is_workload else [module]
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def generator_of(module: str, name: str) -> str | None:
    """The file of a workload that a module of its generator is, if it is one."""
    package, _, file = module.rpartition(".")
    is_ours = package == f"hasten.gallery.{name}" and file not in NO_GENERATORS
    return file if is_ours else None


def foreign_to_the_script(path: Path, name: str) -> list[str]:
    """What a script imports of Hasten beside the generator of its data."""
    ours = [module for module in imports_of(path) if module.partition(".")[0] == "hasten"]
    return [module for module in ours if generator_of(module, name) is None]


def foreign_to_the_generator(file: str, name: str, seen: set[str]) -> list[str]:
    """What a module of the generator, or one of those that it imports, should not import."""
    seen.add(file)
    found = []
    for module in imports_of(FOLDER / name / f"{file}.py"):
        sibling = generator_of(module, name)
        if sibling is not None:
            found += [] if sibling in seen else foreign_to_the_generator(sibling, name, seen)
        elif module.partition(".")[0] not in GENERATORS_IMPORT and not module.startswith(
            ("hasten.errors", "hasten.host")
        ):
            found.append(f"{file}: {module}")
    return found


def test_every_package_is_in_the_catalogue_and_says_its_own_name() -> None:
    assert [each.name for each in read_catalogue().workloads] == NAMES
    assert len(NAMES) >= 5


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_has_its_script_and_its_page(name: str) -> None:
    assert (FOLDER / name / "naive.py").is_file()
    page = (PAGES / f"{name}.md").read_text()
    assert f"hasten tune gallery:{name}" in page
    assert f"python -m hasten.gallery.{name}.naive" in page
    assert f"({name}.md)" in (PAGES / "index.md").read_text()
    assert page.startswith(f"# {name}: ")
    assert [line for line in page.splitlines() if line in SECTIONS] == SECTIONS


@pytest.mark.parametrize("name", NAMES)
def test_the_sizes_that_are_told_are_those_of_the_task(name: str) -> None:
    about = importlib.import_module(f"hasten.gallery.{name}.about").WORKLOAD
    sizes = importlib.import_module(f"hasten.gallery.{name}.task").SIZES
    assert {each.name for each in about.sizes} == set(sizes)
    assert {"small", "full"} <= set(sizes)


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_says_what_guessing_comes_to_and_what_its_script_does_wrong(name: str) -> None:
    about = importlib.import_module(f"hasten.gallery.{name}.about").WORKLOAD
    assert about.margin > 0
    assert len(about.mistakes) >= 3
    assert all(len(line) <= 100 for line in (about.about, about.metric, *about.mistakes))
    assert re.fullmatch(r"[a-z]+s [^?]*[^.?]", about.about), "what it does, and no sentence"


@pytest.mark.parametrize("name", NAMES)
def test_a_script_lists_as_many_mistakes_as_are_told_of_it(name: str) -> None:
    about = importlib.import_module(f"hasten.gallery.{name}.about").WORKLOAD
    script = (FOLDER / name / "naive.py").read_text()
    listed = re.findall("^- ", ast.get_docstring(ast.parse(script)) or "", re.MULTILINE)
    assert len(listed) == len(about.mistakes)


@pytest.mark.parametrize("name", NAMES)
def test_a_script_has_the_rows_of_the_small_task(name: str) -> None:
    naive = importlib.import_module(f"hasten.gallery.{name}.naive")
    small = importlib.import_module(f"hasten.gallery.{name}.task").SIZES["small"]
    counted = "cells" if name == "battery" else "rows"
    of_script = [getattr(naive, f"{part}_{counted.upper()}") for part in ("TRAINING", "EVALUATION")]
    of_task = small.cells if name == "battery" else small.training_rows
    assert of_script == [of_task, getattr(small, f"evaluation_{counted}")]


@pytest.mark.parametrize("name", NAMES)
def test_a_script_uses_nothing_of_hasten_but_the_generator_of_its_data(name: str) -> None:
    script = FOLDER / name / "naive.py"
    assert foreign_to_the_script(script, name) == []
    files = [file for module in imports_of(script) if (file := generator_of(module, name))]
    assert files
    for file in files:
        assert foreign_to_the_generator(file, name, set()) == []


@pytest.mark.parametrize(
    "line",
    [
        "import hasten",
        "from hasten import Task",
        "from hasten.task.task import Task",
        "from hasten.gallery.gpt.model import GPT",
        "from hasten.gallery.gpt import model",
        "from hasten.gallery import transformer",
        "from hasten.gallery.transformer import Block",
        "from hasten.gallery.bloom.data import make_persons",
    ],
)
def test_an_import_that_a_script_must_not_have_is_found(tmp_path: Path, line: str) -> None:
    script = tmp_path / "naive.py"
    script.write_text(f"import torch\nfrom hasten.gallery.gpt.data import x\n\n{line}\n")
    assert len(foreign_to_the_script(script, "gpt")) == 1


def test_what_a_generator_must_not_import_is_found() -> None:
    assert foreign_to_the_generator("task", "gpt", set()) == [
        "task: hasten.data.cache.cached",
        "task: hasten.gallery.gpt.model",
        "task: hasten.task.task",
    ]
