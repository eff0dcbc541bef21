"""``hasten explain`` by the real command, and its pages at the width of a terminal."""

import io
import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console, RenderableType

from hasten.explain import explain
from hasten.records.scan import RuleInWords
from hasten.report.explanation import explanation_card, explanations_table, rule_card, rules_table
from hasten.techniques.registry import BUNDLED

SCHEMA = Path(__file__).parents[2] / "docs/schema/explain.json"
NAMES = [each.name for each in BUNDLED]


def _hasten(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hasten", "explain", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def _shown(page: RenderableType) -> list[str]:
    console = Console(file=io.StringIO(), width=80, highlight=False)
    console.print(page)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def _fact(lines: list[str], title: str) -> str:
    return next(line.split(maxsplit=1)[1] for line in lines if line.startswith(f"  {title} "))


def test_the_command_explains_one_technique() -> None:
    ended = _hasten("compile")
    assert ended.returncode == 0, ended.stderr
    lines = [line.rstrip() for line in ended.stdout.splitlines()]
    assert lines[0] == "compile"
    assert _fact(lines, "chosen") == "by the levels ADVANCED and ULTRA, where it can apply"
    assert _fact(lines, "rung").startswith("rounding: the numbers differ as two orders")
    assert '  mode = "default"' in lines
    assert _fact(lines, "in recipe.toml").endswith("[plan.compile]")


def test_the_command_without_a_name_shows_every_technique_with_its_rung_and_level() -> None:
    ended = _hasten()
    assert ended.returncode == 0, ended.stderr
    rows = {line.split()[0]: line.split()[1:] for line in ended.stdout.splitlines() if line}
    assert set(NAMES) <= set(rows)
    assert rows["batched_loader"] == ["data", "bitwise", "basic"]
    assert rows["whole_step_graph"] == ["graph", "rounding", "ultra"]
    assert rows["weight_initialization"] == ["init", "changes", "training", "if", "asked"]


@pytest.mark.parametrize("arguments", [[], ["compile"]])
def test_the_document_for_programs_fits_its_schema(arguments: list[str]) -> None:
    ended = _hasten(*arguments, "--json")
    document = json.loads(ended.stdout)
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    assert len(document["techniques"]) == (1 if arguments else len(NAMES))


def test_an_unknown_name_is_refused_with_the_nearest_known_one() -> None:
    ended = _hasten("compil")
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.splitlines() == [
        "error: technique or rule 'compil' is not known.",
        "       Did you mean 'compile'?",
    ]


def test_an_unknown_name_is_an_error_document_for_programs() -> None:
    ended = _hasten("compil", "--json")
    assert ended.returncode == 2
    assert json.loads(ended.stdout)["fix"] == "Did you mean 'compile'?"


@pytest.mark.parametrize("name", NAMES)
def test_a_page_fits_a_terminal_and_has_every_text(name: str) -> None:
    (one,) = explain(name).techniques
    lines = _shown(explanation_card(one))
    assert max(map(len, lines)) <= 80
    words = " ".join(" ".join(lines).split())
    settings = [setting.about for setting in one.settings]
    for text in (one.about, one.helps, one.costs, one.limits, one.needs, one.wish, *settings):
        assert " ".join(text.split()) in words


def test_what_a_technique_does_not_say_has_no_row() -> None:
    lines = _shown(explanation_card(explain("batched_loader").techniques[0]))
    assert "Settings" not in lines
    assert not [line for line in lines if line.startswith("  gives way to") and len(line) < 20]


def test_the_table_fits_a_terminal() -> None:
    lines = _shown(explanations_table(explain()))
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line.endswith("…")]


def test_the_command_explains_a_rule_by_its_code_and_by_its_name() -> None:
    by_code, by_name = _hasten("HST201"), _hasten("item-in-hot-loop")
    assert by_code.returncode == 0, by_code.stderr
    assert by_code.stdout == by_name.stdout
    lines = by_code.stdout.splitlines()
    assert lines[0] == "HST201 item-in-hot-loop"
    assert _fact(lines, "ignore it").endswith("# hasten: ignore[HST201]")
    assert {"Found", "Not found"} <= set(lines)


def test_a_rule_is_explained_without_torch() -> None:
    code = (
        "import sys\nfrom hasten.cli.main import hasten\n"
        "hasten.main(['explain', 'HST2'], standalone_mode=False)\n"
        "sys.exit('torch' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_the_document_of_a_rule_fits_its_schema() -> None:
    document = json.loads(_hasten("HST201", "--json").stdout)
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    assert document["techniques"] == []
    assert [each["code"] for each in document["rules"]] == ["HST201"]


@pytest.mark.parametrize("rule", explain().rules, ids=lambda rule: rule.code)
def test_the_page_of_a_rule_has_every_text(rule: RuleInWords) -> None:
    lines = _shown(rule_card(rule))
    words = " ".join(" ".join(lines).split())
    for text in (rule.why, rule.instead, rule.risk, rule.verify, rule.worth):
        assert " ".join(text.split()) in words


def test_the_table_of_rules_has_them_all() -> None:
    rules = explain().rules
    lines = _shown(rules_table(rules))
    assert [line.split()[0] for line in lines if line.startswith("  HST")] == [
        each.code for each in rules
    ]
