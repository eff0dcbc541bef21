"""The Markdown of a tuning: tables that hold together, and hostile names that stay text."""

import re

import msgspec
import pytest

from hasten.records.recipe import Evidence
from hasten.report.markdown import escaped, in_code, tune_markdown
from specimens import NOTHING_TO_GAIN, PROVEN, UNPROVEN
from tunings import NASTY, RICH, hostile

ALL = [PROVEN, NOTHING_TO_GAIN, UNPROVEN, RICH]
UNESCAPED_PIPE = re.compile(r"(?<!\\)(?:\\\\)*\|")


def tables(text: str) -> list[list[str]]:
    """The rows of each."""
    return [block.splitlines() for block in text.split("\n\n") if block.lstrip().startswith("| ")]


def test_the_verdict_is_the_first_line() -> None:
    lines = tune_markdown(RICH, "out").splitlines()
    assert lines[0] == r"## PROVEN: train.py:make\_task trains 2.39x faster"
    assert lines[2] == "99 % interval 2.28x to 2.51x, and trains as well (parity)."
    assert "- tuning took: 2.2 min" in lines
    assert tune_markdown(UNPROVEN, "out").startswith("## NOT PROVEN: ")
    assert tune_markdown(NOTHING_TO_GAIN, "out").startswith("## NOTHING TO GAIN: ")


def test_it_has_the_sections_of_the_page_and_no_drawing() -> None:
    text = tune_markdown(RICH, "out")
    titles = re.findall(r"^### (.*)$", text, re.MULTILINE)
    assert titles[0] == "From naive to final"
    assert titles[-1] == "How to reproduce it"
    assert len(titles) == 10
    assert "<" not in text


def test_rows_are_told_with_their_figures() -> None:
    text = tune_markdown(RICH, "out")
    assert "| `batched_loader` | 1.62x | 1.62x | 1.60x to 1.64x |" in text
    assert "| `compile` | - | **failed** | RuntimeError: no compiler | `batched_loader` |" in text
    assert "    hasten prove train.py:make_task out/recipe.toml" in text


@pytest.mark.parametrize("evidence", [*ALL, *map(hostile, ALL)])
def test_every_row_of_a_table_has_the_columns_of_its_head(evidence: Evidence) -> None:
    found = tables(tune_markdown(evidence, NASTY))
    assert len(found) >= 5
    for rows in found:
        assert len({len(UNESCAPED_PIPE.findall(row)) for row in rows}) == 1


@pytest.mark.parametrize("evidence", ALL)
def test_hostile_names_stay_text(evidence: Evidence) -> None:
    text = tune_markdown(hostile(evidence), NASTY)
    assert all(line.isprintable() for line in text.splitlines())
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)|^    .*$", "", text, flags=re.MULTILINE)
    assert "<" not in outside
    assert "@all" not in outside
    assert not re.search(r"(?<!\\)\*\*b", outside)
    plain = tune_markdown(evidence, "out")
    assert len(re.findall(r"^#", text, re.M)) == len(re.findall(r"^#", plain, re.M))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", r"a\|b"),
        (r"a\|b", r"a\\\|b"),
        ("<b> & `c`", r"&lt;b> &amp; \`c\`"),
        ("- item", r"\- item"),
        ("12. item", r"12\. item"),
        ("# head", r"\# head"),
        ("1.50x", "1.50x"),
        ("fixes #12, says @all", "fixes #&#8203;12, says @&#8203;all"),
        ("two\nlines", "two?lines"),
    ],
)
def test_plain_text_means_nothing_to_markdown(text: str, shown: str) -> None:
    assert escaped(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a_b", "`a_b`"),
        ("a|b", r"`a\|b`"),
        ("a`b", "``a`b``"),
        ("`a``", "``` `a`` ```"),
        (r"a\|b", r"a\\\|b"),
        ("", ""),
    ],
)
def test_code_cannot_end_its_own_span(text: str, shown: str) -> None:
    assert in_code(text) == shown


def test_a_memory_without_figures_is_a_sentence() -> None:
    naive = PROVEN.naive()
    nowhere = msgspec.structs.replace(
        naive.measurement, memory=type(naive.measurement.memory)(host_bytes=None)
    )
    bare = msgspec.structs.replace(
        NOTHING_TO_GAIN,
        diagnosed=(msgspec.structs.replace(naive, measurement=nowhere, peak_bytes=None),),
    )
    assert "### Memory\n\nIt was not measured." in tune_markdown(bare, "out")
