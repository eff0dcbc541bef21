"""Rules in words, as reports and pages tell them."""

from hasten.records.scan import RuleInWords
from hasten.scan.choice import meant_by
from hasten.scan.rule import Rule
from hasten.scan.worth import worth_of

FAMILIES = {
    "1": "data",
    "2": "host and device",
    "3": "memory",
    "4": "compute",
    "5": "several devices",
    "6": "optimizations gone wrong",
    "9": "noisy",
}
"""By the digit after "HST"."""
MARK = "# !"
"""Ends a line of an example that is found."""


def in_words(rule: Rule) -> RuleInWords:
    return RuleInWords(
        code=rule.code,
        name=rule.name,
        family=FAMILIES[rule.code[3]],
        why=rule.why,
        instead=rule.instead,
        effort=rule.effort,
        risk=rule.risk,
        verify=rule.verify,
        worth=worth_of(rule.code),
        default=rule.default,
        found=next(each for each in rule.examples if MARK in each),
        fine=next(each for each in rule.examples if MARK not in each),
    )


def rules_in_words(code: str = "HST") -> tuple[RuleInWords, ...]:
    """Of a code, of the beginning of some, or of a name; none where it is unknown."""
    return tuple(in_words(rule) for rule in meant_by(code))
