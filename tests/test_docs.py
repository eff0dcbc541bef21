"""README and docs are true: code runs, links lead somewhere, figures have their file."""

import dataclasses
import enum
import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import click
import pytest

import hasten
from hasten import data
from hasten.cli.main import hasten as cli
from hasten.config import PerformanceConfig
from hasten.data import encoders

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md"),
    *sorted(DOCS.rglob("*.md")),
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# A figure that claims speed: "1.31x", "12 % faster".
FIGURE = re.compile(r"\b\d+(?:\.\d+)?(?:x\b| ?% (?:faster|less|more))")
INDENTED = re.compile(r"^ {4}.*$", re.MULTILINE)
"""Code, in which an index before a call looks like a link."""
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def _blocks(language: str) -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for kind, body in FENCE.findall(page.read_text()):
            if kind == language:
                found.append((f"{page.name}: {body.splitlines()[0]}", body))
    return found


@pytest.mark.parametrize(("name", "body"), _blocks("python"))
def test_a_python_block_runs(
    name: str, body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hasten.techniques import registry

    monkeypatch.setattr(registry, "_techniques", dict(registry._techniques))
    file = tmp_path / "block.py"
    file.write_text(body)
    spec = importlib.util.spec_from_file_location("block", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if hasattr(module, "make_task"):
        from hasten.runtime.run import Run
        from hasten.task.pipeline import Pipeline

        run = Run(Pipeline.from_task(module.make_task()))
        assert float(run.step(next(run.endless()))) > 0


def _command_lines() -> list[str]:
    lines = [line for page in PAGES for line in page.read_text().splitlines()]
    found = [
        match for line in lines for match in re.findall(r"(?:^|[`$ ])(hasten [a-z][^`]*)", line)
    ]
    return sorted({line.split("#")[0].strip() for line in found if _names_a_command(line)})


def _names_a_command(line: str) -> bool:
    return line.split()[1] in cli.commands


@pytest.mark.parametrize("line", _command_lines())
def test_a_command_line_names_options_that_exist(line: str) -> None:
    words = line.split()
    command = cli.commands[words[1]]
    if isinstance(command, click.Group) and len(words) > 2:
        command = command.commands[words[2].rstrip(",.")]
    known = {option for each in command.params for option in each.opts}
    used = {word for word in words[2:] if word.startswith("--")}
    assert used <= known, line
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    assert len(words) > 2 or not arguments or line == f"hasten {words[1]}", line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_within_the_project_leads_to_a_file(page: Path) -> None:
    for target in LINK.findall(INDENTED.sub("", page.read_text())):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_with_figures_links_to_their_results_file(page: Path) -> None:
    text = page.read_text()
    if FIGURE.search(text):
        results = [link for link in LINK.findall(text) if "results/" in link]
        assert results, f"{page.name} claims {FIGURE.findall(text)[:3]} without a results file"


def test_the_figure_check_can_fail() -> None:
    assert FIGURE.search("It trains 1.31x faster.")
    assert FIGURE.search("takes 12 % less")
    assert not FIGURE.search("a margin of 1 %, an interval of 99 %")


def test_results_files_say_where_they_come_from() -> None:
    files = sorted((ROOT / "benchmarks/results").glob("*.json"))
    assert files, "benchmarks/results is empty: run `make bench`"
    for file in files:
        document = json.loads(file.read_text())
        missing = {"date", "command", "commit", "environment"} - document.keys()
        assert not missing, f"{file.name} lacks {missing}"
        assert re.fullmatch(r"\d{4}-\d\d-\d\d-.+\.json", file.name)


def _script(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("script", ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_schemas_in_the_docs_are_those_of_the_records() -> None:
    for name, schema in _script("docs/schema/make.py").schemas().items():
        written = json.loads((ROOT / f"docs/schema/{name}.json").read_text())
        assert written == json.loads(json.dumps(schema)), (
            f"docs/schema/{name}.json is old: run `make schemas`"
        )


def test_the_page_of_the_techniques_is_what_they_say_of_themselves() -> None:
    written = (ROOT / "docs/techniques.md").read_text()
    assert written == _script("docs/techniques.py").page(), (
        "docs/techniques.md is old: run `make techniques-page`"
    )


def test_the_page_of_the_rules_is_what_they_say_of_themselves() -> None:
    written = (ROOT / "docs/rules.md").read_text()
    assert written == _script("docs/rules.py").page(), "docs/rules.md is old: run `make rules-page`"


def test_the_reference_is_what_the_source_says() -> None:
    written = (DOCS / "api.md").read_text()
    assert written == _script("docs/api.py").page(), "docs/api.md is old: run docs/api.py"


def test_the_reference_has_every_public_name_once() -> None:
    names = re.findall(r"^### (.+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    public = {f"{each.__name__}.{name}" for each in (hasten, encoders) for name in each.__all__}
    public |= {f"hasten.data.{name}" for name in set(data.__all__) - set(hasten.__all__)}
    assert len(set(names)) == len(names)
    assert public <= set(names)


def test_nothing_in_the_reference_is_without_words() -> None:
    text = (DOCS / "api.md").read_text()
    sections = re.split(r"^#{2,4} ", text, flags=re.MULTILINE)[1:]
    assert len(sections) > 80
    for section in sections:
        title, _, body = section.partition("\n")
        assert re.search(r"^[^|`\s]|^`(?!``)", FENCE.sub("", body), re.MULTILINE), title
    assert not [line for line in text.splitlines() if line.endswith("|  |")]


def test_the_docs_have_every_wish_with_its_default() -> None:
    text = (ROOT / "docs/step-engine.md").read_text()
    section = text.partition("## What you may wish for")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", section, re.MULTILINE)
    fields = dataclasses.fields(PerformanceConfig)
    assert rows == [(each.name, _default(each.default)) for each in fields]


def _default(value: object) -> str:
    return value.name if isinstance(value, enum.Enum) else repr(value).replace("'", '"')


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    for page in DOCS.rglob("*.md"):
        assert f": {page.relative_to(DOCS)}\n" in navigation
