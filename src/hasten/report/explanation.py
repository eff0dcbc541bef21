"""The pages of ``hasten explain``: one technique or rule, or tables of many."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hasten.records.explanation import Explanation, Explanations, Setting
from hasten.records.plan import Rung
from hasten.records.record import to_toml
from hasten.records.scan import RuleInWords
from hasten.report.text import printable, printable_lines

CHOSEN = {
    "basic": "by every level, where it can apply",
    "advanced": "by the levels ADVANCED and ULTRA, where it can apply",
    "ultra": "by the level ULTRA alone, where it can apply",
    None: "by no level: only where it is asked for",
}


def explanations_page(of: Explanations) -> RenderableType:
    """One thing in full, more of them in tables."""
    if len(of.techniques) + len(of.rules) == 1:
        return explanation_card(of.techniques[0]) if of.techniques else rule_card(of.rules[0])
    parts = [explanations_table(of)] if of.techniques else []
    return Group(*parts, *([rules_table(of.rules)] if of.rules else []))


def explanation_card(of: Explanation) -> RenderableType:
    name = Text(printable(of.technique), style="bold")
    facts = _grid()
    rows = {
        "helps": of.helps,
        "costs": of.costs,
        "rung": f"{_words(of.rung)}: {of.rung_means}",
        "limits": of.limits,
        "needs": of.needs,
        "replaces": ", ".join(of.instead_of),
        "gives way to": ", ".join(of.gives_way_to),
        "stage": of.stage,
        "chosen": CHOSEN[of.level],
    }
    for title, text in rows.items():
        if text:
            facts.add_row(title, Text(printable(text)))
    sections: list[RenderableType] = [
        name,
        _indented(Text(printable(of.about))),
        "",
        _indented(facts),
    ]
    if of.settings:
        sections += ["", Text("Settings", style="bold")]
        sections += [_setting(each) for each in of.settings]
    return Group(*sections, "", Text("Switch it on", style="bold"), _switch(of))


def explanations_table(of: Explanations) -> RenderableType:
    names = max(len(each.technique) for each in of.techniques)
    rows: list[RenderableType] = [
        _row(names, "technique", "stage", "rung", "level", style="dim"),
    ]
    for each in of.techniques:
        level = each.level or "if asked"
        rows.append(_row(names, each.technique, each.stage, _words(each.rung), level, style="bold"))
        rows.append(_indented(Text(printable(each.about))))
    rungs = Table.grid(padding=(0, 2))
    for rung in Rung:
        rungs.add_row(_words(rung), rung.meaning())
    return Group(
        *rows,
        Text("\nRungs: what a technique may change", style="bold"),
        _indented(rungs),
        Text("\nhasten explain TECHNIQUE says all of one. The order is that of composition."),
    )


def rule_card(rule: RuleInWords) -> RenderableType:
    facts = _grid()
    rows = {
        "why": rule.why,
        "instead": rule.instead,
        "worth": rule.worth or "not measured yet",
        "effort": f"{rule.effort} for one place",
        "risk": rule.risk,
        "verify": rule.verify,
        "family": rule.family + ("" if rule.default else "; only looked for where it is selected"),
        "ignore it": f"# hasten: ignore[{rule.code}]",
    }
    for title, text in rows.items():
        facts.add_row(title, Text(printable(text)))
    head = Text(f"{rule.code} {rule.name}", style="bold")
    return Group(
        head, _indented(facts), *_example("Found", rule.found), *_example("Not found", rule.fine)
    )


def rules_table(rules: Sequence[RuleInWords]) -> RenderableType:
    table = _grid()
    for each in rules:
        asked = "" if each.default else "  (if selected)"
        table.add_row(each.code, Text(f"{each.name}{asked}"))
    return Group(
        Text("\nRules of hasten scan", style="bold"),
        _indented(table),
        Text("\nhasten explain HST201 says all of one."),
    )


def _example(title: str, text: str) -> list[RenderableType]:
    return ["", Text(title, style="bold"), _indented(Text(printable_lines(text.rstrip())))]


def _row(width: int, name: str, stage: str, rung: str, level: str, *, style: str) -> Text:
    """A line of the table; under it stands what the technique does, as wide as the terminal."""
    row = Text(f"{printable(name):{width}}", style=style)
    return row.append(f"  {stage:13}  {rung:16}  {level}", style="not bold")


def _setting(setting: Setting) -> RenderableType:
    written = to_toml({setting.name: setting.default}).rstrip() or f"{setting.name} left out"
    line = Text(printable(written))
    text = _sentence(setting.takes) + (f" {setting.about}" if setting.about else "")
    return Group(_indented(line), Padding(Text(printable(text)), (0, 0, 0, 6)))


def _switch(of: Explanation) -> RenderableType:
    ways = _grid()
    ways.add_row("in recipe.toml", Text(_lines(of.recipe)))
    ways.add_row("in a loop", Text(printable(of.wish)))
    ways.add_row("to try it", Text(printable(f"hasten bench TASK naive {of.technique}")))
    return _indented(ways)


def _grid() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    return table


def _indented(what: RenderableType) -> Padding:
    return Padding(what, (0, 0, 0, 2))


def _words(rung: Rung) -> str:
    return rung.replace("_", " ")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.splitlines())
