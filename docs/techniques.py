"""Writes techniques.md from what each technique says of itself; `make techniques-page` runs it."""

from itertools import groupby
from pathlib import Path

from hasten.explain import explain
from hasten.records.explanation import Explanation
from hasten.records.plan import Rung
from hasten.records.record import to_toml
from hasten.report.explanation import CHOSEN

INTRO = """\
<!-- Written by docs/techniques.py from the techniques' own files. Run `make techniques-page`. -->

# Techniques

Each technique is one file in `src/hasten/techniques/`, and all that this page says of one stands
there. `hasten explain` shows the same on a terminal, `hasten explain compile` all of one.

**The ladder.** A technique names the rung that it is held to: how far it may change the numbers.

{rungs}

[How it decides](how-it-decides.md) says how each rung is shown, and which ones are proven today.

**Levels** are starting points of a `PerformanceConfig`; nothing about them was measured on your
task. `BASIC` takes techniques on the bitwise rung, `ADVANCED` also those on the rounding and parity
rungs, compiling among them, whose first step takes seconds to minutes; `ULTRA` also the whole
step as one graph and compiling by `max-autotune`, which take longest. A level leaves out what this
machine, model or data gives nothing to do, and never takes what changes the training. Some
techniques are chosen by no level: they cost more than they gain unless you have their problem, so
you ask for them.

**A plan composes by stage.** Whatever the order in which a plan names its techniques, they are
applied in the order of this page, each on what those before it left. Where one leaves another
nothing to do, such as data that is on the device already, the other is skipped.

**A technique that fails is dropped.** Before a step Hasten notes what a redo would need. If a
step raises, at the first or at any later one, the state is restored, the technique to blame is
found by leaving out one at a time, and the step is redone without it. One that did not really run,
or that turns out to be a loss later, such as a compiler that never stops compiling, is taken back
between two steps. `run.applied` says what became of each, and why.
[Use it in your own loop](step-engine.md) has the details.

Lines such as `[plan.compile]` below switch a technique on in a `recipe.toml`; settings that are
left out have the defaults that are shown. A plan that you have changed is no longer the one that
was proven: run `hasten prove` again.
"""


def page() -> str:
    found = explain().techniques
    rungs = _table(["rung", "meaning"], [[_words(rung), rung.meaning()] for rung in Rung])
    sections = [INTRO.format(rungs=rungs), _overview(found)]
    for stage, members in groupby(found, key=lambda each: each.stage):
        sections += [f"## Stage: {stage}", *(_section(each) for each in members)]
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _overview(found: tuple[Explanation, ...]) -> str:
    rows = [
        [
            each.stage,
            f"[{each.technique}](#{each.technique})",
            _words(each.rung),
            each.level.upper() if each.level else "if asked",
        ]
        for each in found
    ]
    return _table(["stage", "technique", "rung", "from level"], rows)


def _section(of: Explanation) -> str:
    facts = {
        "Helps": of.helps,
        "Costs": of.costs,
        "Rung": f"{_words(of.rung)}: {of.rung_means}.",
        "Limits": of.limits,
        "Needs": of.needs,
        "Replaces": _names(of.instead_of),
        "Gives way to": _names(of.gives_way_to),
        "Chosen": f"{CHOSEN[of.level]}; in Python by `{of.wish}`.",
    }
    lines = [f"- **{title}**: {text}" for title, text in facts.items() if text]
    parts = [f"### {of.technique}", of.about, "\n".join(lines), _settings(of)]
    return "\n\n".join([*filter(None, parts), f"```toml\n{of.recipe}\n```"])


def _settings(of: Explanation) -> str:
    rows = [
        [
            f"`{to_toml({each.name: each.default}).strip()}`",
            each.takes.replace("|", "\\|"),
            each.about.replace("|", "\\|"),
        ]
        for each in of.settings
    ]
    return _table(["setting and its default", "takes", "meaning"], rows) if rows else ""


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _names(techniques: tuple[str, ...]) -> str:
    return ", ".join(f"[{name}](#{name})" for name in techniques)


def _words(rung: Rung) -> str:
    return rung.replace("_", " ")


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page())
