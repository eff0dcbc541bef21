"""Writes rules.md from what each rule says of itself; `make rules-page` runs it."""

import re
from itertools import groupby
from pathlib import Path

from hasten.records.scan import RuleInWords
from hasten.scan.words import MARK, rules_in_words

RESULTS = re.compile(r"\[([^]]+\.json)\]$")
INTRO = """\
<!-- Written by docs/rules.py from the rules' own files. Run `make rules-page`. -->

# Rules of scan

Each rule is one file in `src/hasten/scan/rules/`, and all that this page says of one stands there.
`hasten explain HST201` shows the same on a terminal. [Scan](scan.md) says how to run them, select
them and ignore them.

A rule speaks of a line only where it runs often enough to matter, and is silent where it is not
sure what an expression is. Lines that are marked with `{mark}` in the examples are findings; the
second example of a rule is one in which it finds nothing.
"""


def page() -> str:
    rules = rules_in_words()
    sections = [INTRO.format(mark=MARK), _overview(rules)]
    for family, members in groupby(rules, key=lambda each: each.family):
        sections += [f"## {family.capitalize()}", *map(_section, members)]
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _overview(rules: tuple[RuleInWords, ...]) -> str:
    rows = [
        f"| [{each.code}](#{each.code.lower()}) | {each.name} | {each.family} | {each.effort} |"
        for each in rules
    ]
    return "\n".join(["| code | name | family | effort |", "|---|---|---|---|", *rows])


def _section(rule: RuleInWords) -> str:
    facts = {
        "Why": rule.why,
        "Instead": rule.instead,
        "Worth": RESULTS.sub(_linked, rule.worth),
        "Effort": f"{rule.effort} for one place",
        "Risk": rule.risk,
        "Verify": rule.verify,
        "Selected": "" if rule.default else "only where `select` names it",
    }
    lines = [f"- **{title}**: {text}" for title, text in facts.items() if text]
    return "\n\n".join(
        [
            f"### {rule.code}",
            f"**{rule.name}**",
            "\n".join(lines),
            _example("Found", rule.found),
            _example("Not found", rule.fine),
        ]
    )


def _linked(files: re.Match[str]) -> str:
    return " ".join(f"([results](results/{each}))" for each in files[1].split(", "))


def _example(title: str, text: str) -> str:
    """Indented, not fenced: code that is fenced in these pages is run."""
    code = "\n".join(f"    {line}".rstrip() for line in text.rstrip().splitlines())
    return f"{title}:\n\n{code}"


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page())
