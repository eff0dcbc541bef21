"""Which rules are meant by the codes that people write."""

from collections.abc import Iterable

from hasten.records.record import unknown_name
from hasten.scan.registry import all_rules
from hasten.scan.rule import Rule

PREFIX = "HST"
ALL = "`hasten explain` lists all rules."


def meant_by(code: str) -> list[Rule]:
    """The rules of a code, of the beginning of some, or of a name, in large letters or small; none
    where it is unknown."""
    said = _said(code)
    if not said.startswith(PREFIX):
        return [rule for rule in all_rules() if rule.name == said]
    return [rule for rule in all_rules() if rule.code.startswith(said)]


def codes_of(codes: Iterable[str], *, where: str = "") -> dict[str, int]:
    """All rules that are meant, by their own codes, with how exactly: the length of what named
    it. ``where`` is for the error that names an unknown one."""
    found: dict[str, int] = {}
    for code in codes:
        rules = meant_by(code)
        if not rules:
            said = _said(code)
            known = [rule.code if said.startswith(PREFIX) else rule.name for rule in all_rules()]
            raise unknown_name("rule", said, known, where=where, all_=ALL)
        for rule in rules:
            exactly = min(len(code), len(rule.code))
            found[rule.code] = max(found.get(rule.code, 0), exactly)
    return found


def _said(code: str) -> str:
    """As rules write it."""
    return code.upper() if code.upper().startswith(PREFIX) else code.lower()


def chosen(select: Iterable[str], ignore: Iterable[str]) -> list[Rule]:
    """Those that are selected and not ignored; without a selection all that are not noisy. Where
    two codes disagree the one that says more exactly what it means decides."""
    wanted, unwanted = codes_of(select), codes_of(ignore)
    if not wanted:
        wanted = {rule.code: 0 for rule in all_rules() if rule.default}
    return [
        rule
        for rule in all_rules()
        if rule.code in wanted and wanted[rule.code] > unwanted.get(rule.code, -1)
    ]
