"""Techniques and rules in words, each from its own file: what it does, what it costs, how to
switch it on; what it finds, why, what to write instead."""

from typing import Any, get_type_hints

import msgspec

from hasten.config import FIELDS, lowest_level
from hasten.records.explanation import Explanation, Explanations, Setting
from hasten.records.fields import field_docs
from hasten.records.kinds import takes
from hasten.records.plan import RawPart
from hasten.records.record import to_toml, unknown_name
from hasten.scan.words import rules_in_words
from hasten.techniques.registry import all_techniques
from hasten.techniques.technique import Part, Technique


def explain(name: str | None = None) -> Explanations:
    """Of the technique with that name, or the rules of that code or name; of everything where none
    is given."""
    if name is not None and (asked := rules_in_words(name)):
        return Explanations(techniques=(), rules=asked)
    known = {each.name: each for each in all_techniques()}
    rules = rules_in_words()
    if name is not None and name not in known:
        raise unknown_name("technique or rule", name, [*known, *(each.code for each in rules)])
    if name is not None:
        return Explanations(techniques=(_explain(known[name]),), rules=())
    return Explanations(techniques=tuple(map(_explain, known.values())), rules=rules)


def _explain(technique: Technique[Any]) -> Explanation:
    level = lowest_level(technique)
    part: RawPart = msgspec.to_builtins(technique.part())
    return Explanation(
        technique=technique.name,
        stage=technique.stage.name.lower(),
        about=technique.about,
        helps=technique.helps,
        costs=technique.costs,
        rung=technique.rung,
        rung_means=technique.rung.meaning(),
        limits=technique.limits,
        needs=technique.needs,
        settings=_settings(technique.part, part),
        instead_of=technique.instead_of,
        gives_way_to=tuple(
            each.name for each in all_techniques() if technique.name in each.instead_of
        ),
        level=None if level is None else level.value,
        recipe=to_toml({"plan": {technique.name: part}}).rstrip(),
        wish=_wish(technique.name, part),
    )


def _settings(kind: type[Part], part: RawPart) -> tuple[Setting, ...]:
    docs, hints = field_docs(kind), get_type_hints(kind, include_extras=True)
    return tuple(
        Setting(
            name=field.encode_name,
            takes=takes(hints[field.name]),
            default=part[field.encode_name],
            about=docs.get(field.name, ""),
        )
        for field in msgspec.structs.fields(kind)
    )


def _wish(name: str, part: RawPart) -> str:
    field = FIELDS.get(name)
    if field is None:
        return f"Plan(parts={{{name!r}: {{}}}})"
    # Fields that are not a yes or no stand for the one setting of their technique.
    value = True if field.startswith("enable_") else next(iter(part.values()))
    return f"PerformanceConfig({field}={value!r})"
