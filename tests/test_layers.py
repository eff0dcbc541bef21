"""The rooms and their order: read from the imports, held here."""

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

ORDER = (
    ("errors",),
    ("records",),
    ("stats", "host", "report"),
    ("scan", "task"),
    ("data", "memory", "stability", "distributed", "step", "checkpoint"),
    ("techniques",),
    ("config",),
    ("runtime", "monitor", "inference"),
    ("train",),
    ("measure",),
    ("diagnose",),
    ("tune",),
    ("optimizer", "guard", "flow", "explain"),
    ("gallery",),
    ("cli", "pytest_plugin"),
    ("__main__",),
)
"""Lower rooms first. A module imports from its own room and from rooms on earlier lines, never
from one beside it on the same line."""
LEVELS = {room: level for level, rooms in enumerate(ORDER) for room in rooms}

NO_TORCH = {"errors", "records", "stats", "report", "scan"}
"""Nowhere in these."""
NO_TORCH_AT_IMPORT = {"", "host", "monitor", "flow", "cli", "pytest_plugin", "__main__"}
"""Inside functions only; "" is the package itself."""
FRONT_DOOR = {"__version__"}
"""What every room may take from the package itself; its lazy names would hide their rooms."""


class Import:
    """One imported module or name, in full, and whether a function does it when it is called."""

    def __init__(self, name: str, *, late: bool, line: int) -> None:
        self.name = name
        self.late = late
        self.line = line


def violations(sources: Mapping[str, str]) -> list[str]:
    """What breaks the order of the rooms, given the source of each module by its full name."""
    found = []
    for module, source in sources.items():
        room = room_of(module)
        if room and room not in LEVELS:
            found.append(f"{module}: the room {room} has no place in the order")
            continue
        for each in imports_of(module, source, sources):
            reason = _reason_against(room, each, sources)
            if reason:
                found.append(f"{module}:{each.line}: {reason}")
    return found


def room_of(module: str) -> str:
    """The folder or file right below the package; "" for the package itself."""
    return module.removeprefix("hasten").removeprefix(".").partition(".")[0]


def imports_of(module: str, source: str, sources: Mapping[str, str]) -> Iterator[Import]:
    is_package = any(other.startswith(f"{module}.") for other in sources)
    package = module if is_package else module.rpartition(".")[0]
    tree = ast.parse(source)
    if module == "hasten":
        tree.body = [node for node in tree.body if not _for_type_checkers(node)]
    yield from _walk(tree, package, late=False)


def _walk(node: ast.AST, package: str, *, late: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, late=late, line=child.lineno)
        elif isinstance(child, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - child.level + 1]
            base = [*(parents if child.level else []), *filter(None, [child.module])]
            for alias in child.names:
                yield Import(".".join([*base, alias.name]), late=late, line=child.lineno)
        else:
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _walk(child, package, late=late or function)


def _for_type_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _reason_against(room: str, each: Import, sources: Mapping[str, str]) -> str | None:
    top, _, below = each.name.partition(".")
    if top == "torch":
        if room in NO_TORCH:
            return f"{room} never imports torch"
        if room in NO_TORCH_AT_IMPORT and not each.late:
            return f"{room or 'the package'} imports torch in functions only"
        return None
    if top != "hasten" or below in FRONT_DOOR:
        return None
    other = room_of(each.name)
    if not any(room_of(module) == other for module in sources) or not other:
        return f"{each.name} comes through the front door; import it from its room"
    if not room or (other != room and LEVELS[other] >= LEVELS[room]):
        return f"{room or 'the package'} may not import {other}"
    return None


def read_sources(folder: Path = SOURCE) -> dict[str, str]:
    sources = {}
    for path in sorted((folder / "hasten").rglob("*.py")):
        name = ".".join(path.relative_to(folder).with_suffix("").parts)
        sources[name.removesuffix(".__init__")] = path.read_text(encoding="utf-8")
    return sources


SOURCES = read_sources()


def planted(module: str, line: str) -> list[str]:
    """The violations of one real module with one more line at its end."""
    source = SOURCES.get(module, "")
    return violations({**dict.fromkeys(SOURCES, ""), module: f"{source}\n{line}\n"})


def test_every_room_imports_from_lower_rooms_only() -> None:
    assert violations(SOURCES) == []


def test_every_module_of_the_package_is_read() -> None:
    assert len(SOURCES) > 50
    assert {"hasten", "hasten.flow", "hasten.records", "hasten.records.record"} <= set(SOURCES)
    assert {room_of(module) for module in SOURCES} >= {"", "stats", "tune", "cli", "gallery"}


@pytest.mark.parametrize(
    ("module", "line", "reason"),
    [
        ("hasten.stats.paired", "import hasten.host.cores", "stats may not import host"),
        ("hasten.stats.paired", "from hasten.report import text", "stats may not import report"),
        ("hasten.report.card", "from hasten.host.files import x", "report may not import host"),
        ("hasten.records.plan", "from hasten.task.task import Task", "records may not import task"),
        ("hasten.errors", "from hasten.records.plan import Plan", "errors may not import records"),
        ("hasten.task.task", "import hasten.techniques.registry", "may not import techniques"),
        (
            "hasten.data.strings",
            "from hasten import techniques",
            "may not import techniques",
        ),
        (
            "hasten.step.eager",
            "from hasten.data.loaders.batched import x",
            "step may not import data",
        ),
        ("hasten.step.eager", "import hasten.techniques.registry", "may not import techniques"),
        ("hasten.task.pipeline", "from hasten.step.eager import x", "task may not import step"),
        ("hasten.techniques.compile", "from hasten.config import x", "may not import config"),
        ("hasten.config", "from hasten.runtime.run import Run", "config may not import runtime"),
        ("hasten.measure.lab", "from hasten.tune.prove import x", "measure may not import tune"),
        ("hasten.diagnose.diagnose", "import hasten.tune", "diagnose may not import tune"),
        ("hasten.flow", "from hasten.optimizer import x", "flow may not import optimizer"),
        ("hasten.optimizer", "from hasten.flow import tune", "optimizer may not import flow"),
        ("hasten.tune.files", "from hasten.flow import tune", "tune may not import flow"),
        ("hasten.flow", "import hasten.gallery.bloom.task", "flow may not import gallery"),
        ("hasten.gallery", "from hasten.cli import main", "gallery may not import cli"),
        ("hasten", "from hasten.errors import HastenError", "the package may not import errors"),
    ],
)
def test_a_planted_import_from_a_higher_room_is_found(module: str, line: str, reason: str) -> None:
    (violation,) = planted(module, line)
    assert violation.startswith(f"{module}:")
    assert reason in violation


@pytest.mark.parametrize("room", ["measure", "tune", "flow", "diagnose"])
@pytest.mark.parametrize("place", ["import", "function", "type checking"])
def test_the_runtime_never_imports_what_measures_and_tunes(room: str, place: str) -> None:
    line = f"import hasten.{room}"
    source = {
        "import": line,
        "function": f"def f():\n    {line}",
        "type checking": f"if TYPE_CHECKING:\n    {line}",
    }[place]
    (violation,) = planted("hasten.runtime.run", source)
    assert f"runtime may not import {room}" in violation


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("hasten.records.record", "from .. import tune"),
        ("hasten.records.record", "from ..tune.files import Journal"),
        ("hasten.records", "from ..tune import files"),
        ("hasten.errors", "from .tune import files"),
    ],
)
def test_a_relative_import_is_seen_through(module: str, line: str) -> None:
    (violation,) = planted(module, line)
    assert "may not import tune" in violation


@pytest.mark.parametrize("module", ["hasten.records.plan", "hasten.stats.paired"])
@pytest.mark.parametrize("line", ["import torch", "from torch import nn", "import torch.nn as n"])
def test_torch_is_found_where_it_may_never_be(module: str, line: str) -> None:
    for source in (line, f"def f():\n    {line}"):
        (violation,) = planted(module, source)
        assert violation.endswith("never imports torch")


def test_the_report_never_imports_torch() -> None:
    (violation,) = planted("hasten.report.card", "def f():\n    import torch")
    assert violation.endswith("report never imports torch")


@pytest.mark.parametrize(
    "module",
    ["hasten.host.cores", "hasten.monitor.regions", "hasten.cli.main", "hasten.flow", "hasten"],
)
def test_torch_is_found_at_import_where_only_functions_may_import_it(module: str) -> None:
    for source in ("import torch", "class C:\n    import torch", "if True:\n    import torch"):
        (violation,) = planted(module, source)
        assert violation.endswith("imports torch in functions only")
    assert planted(module, "def f():\n    import torch") == []


def test_a_room_that_nobody_gave_a_place_is_found() -> None:
    (violation,) = planted("hasten.misc.things", "import os")
    assert violation == "hasten.misc.things: the room misc has no place in the order"


def test_a_name_that_comes_through_the_front_door_is_found() -> None:
    for line in ("from hasten import Task", "import hasten"):
        (violation,) = planted("hasten.tune.files", line)
        assert "front door" in violation


def test_imports_that_are_in_order_are_not_found() -> None:
    assert planted("hasten.tune.files", "from hasten import __version__") == []
    assert planted("hasten.tune.files", "from hasten.tune import prove") == []
    assert planted("hasten.tune.files", "from . import prove") == []
    assert planted("hasten.tune.files", "import hasten.measure.lab, torch") == []
    assert planted("hasten.cli.main", "import hasten.flow") == []
    assert planted("hasten.host.cores", "import torchvision_like") == []


def test_who_tunes_loads_no_torch() -> None:
    """It would take seconds of every command; workers load it."""
    rooms = [each for each in SOURCES if room_of(each) in {"flow", "tune", "diagnose", "cli"}]
    script = f"import sys, {', '.join(rooms)}\nsys.exit('torch' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 0, ended.stderr
