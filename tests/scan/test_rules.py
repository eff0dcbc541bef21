"""Every rule's own examples, and what all rules have in common."""

import re

import pytest

from hasten.scan.analysis import analyse
from hasten.scan.link import Tree
from hasten.scan.looking import Rules
from hasten.scan.registry import all_rules
from hasten.scan.rule import Rule

RULES = all_rules()
EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.code}-{number}")
    for rule in RULES
    for number, example in enumerate(rule.examples)
]
MARK = "# !"
FAMILIES = "1234569"


def found_lines(rule: Rule, text: str) -> list[int]:
    """Lines on which the rule alone finds something, one entry for each."""
    analysis = analyse(text, Rules.of([rule]))
    assert not analysis.failure, analysis.failure
    return sorted(
        {each.line for each in Tree({"example.py": analysis}).findings({rule.code: rule})}
    )


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_a_rule_finds_the_marked_lines_and_no_others(rule: Rule, example: str) -> None:
    lines = example.splitlines()
    marked = [number for number, line in enumerate(lines, 1) if line.endswith(MARK)]
    assert found_lines(rule, example) == marked


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_has_examples_of_both_kinds(rule: Rule) -> None:
    wrong = [each for each in rule.examples if MARK in each]
    assert wrong, "nothing shows that it finds anything"
    assert len(wrong) < len(rule.examples), "nothing shows that it is ever silent"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_says_what_it_is_about(rule: Rule) -> None:
    assert re.fullmatch(rf"HST[{FAMILIES}]\d\d", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.name)
    assert rule.calls or rule.nodes or rule.writes, "it is never asked"
    for words in (rule.why, rule.instead, rule.verify):
        assert words.endswith("."), words
    assert rule.default == (not rule.code.startswith("HST9"))


def test_codes_and_names_are_of_one_rule_each() -> None:
    assert len({rule.code for rule in RULES}) == len(RULES)
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        module = type(rule).__module__.rpartition(".")[2]
        assert module.startswith(rule.code.lower() + "_"), "the file is named by its code"
