"""The report of a tuning as Markdown, for a pull request: the page's words and tables."""

import re

from hasten.records.recipe import Evidence
from hasten.report.blocks import Block, Cell, Commands, Grid, Section, Words
from hasten.report.text import printable
from hasten.report.tuning import headline
from hasten.report.tuning_sections import key_figures, tune_sections

SPECIAL = re.compile(r"([\\`*_\[\]|~$])")
OPENING = re.compile(r"^(\s*\d*)([#+\-=.)>])(?=[\s=-]|$)")
"""What makes a line a heading, a list, a quotation or an underlining, where it begins one."""
MENTION = re.compile(r"([@#])(?=\w)")
"""Names a person or an issue, where the text is shown on a forge."""


def tune_markdown(evidence: Evidence, out: str) -> str:
    """``out`` is the folder that the tuning wrote into, as the commands name it."""
    head = headline(evidence)
    parts = [f"## {escaped(head.word)}: {escaped(head.claim)}"]
    if head.beside:
        parts.append(f"{escaped(', '.join(head.beside))}.")
    parts.append("\n".join(f"- {name}: {escaped(text)}" for name, text in key_figures(evidence)))
    parts += [_section(each) for each in tune_sections(evidence, out)]
    return "\n\n".join(parts) + "\n"


def escaped(text: str, opens: bool = True) -> str:
    """Plain text that stays plain, in a line and in a table; ``opens`` where it may begin one."""
    inert = printable(text).replace("&", "&amp;").replace("<", "&lt;")
    safe = SPECIAL.sub(r"\\\1", inert)
    return MENTION.sub(r"\1&#8203;", OPENING.sub(r"\1\\\2", safe) if opens else safe)


def in_code(text: str, in_table: bool = True) -> str:
    """A code span: within it only backticks, and in a table pipes, mean something."""
    if in_table and r"\|" in text:  # a backslash and a pipe cannot both be told in a table's code
        return escaped(text)
    words = printable(text)
    if in_table:
        words = words.replace("|", r"\|")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", words)), default=0))
    room = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{fence}{room}{words}{room}{fence}" if words else ""


def _section(section: Section) -> str:
    blocks = [_block(each) for each in section.blocks]
    return "\n\n".join([f"### {section.title}", *filter(None, blocks)])


def _block(block: Block) -> str:
    if isinstance(block, Words):
        return escaped(block.text)
    if isinstance(block, Commands):
        return "\n".join(f"    {printable(line)}" for line in block.lines)
    return _table(block) if isinstance(block, Grid) else escaped(block.instead)


def _table(grid: Grid) -> str:
    rules = ("---:" if at in grid.figures else "---" for at in range(len(grid.headings)))
    rows = [map(escaped, grid.headings), rules, *(map(_cell, row) for row in grid.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(cell: Cell) -> str:
    if cell.code:
        return in_code(cell.text)
    if cell.text == "-":
        return "-"
    return f"**{escaped(cell.text)}**" if cell.tone != "plain" else escaped(cell.text)
