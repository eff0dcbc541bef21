"""The verdict card of a tuning: verdict, why, what was tried, what it is worth, next."""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hasten.records.recipe import Evidence
from hasten.records.verdict import NumericsClaim
from hasten.report.blocks import Tone
from hasten.report.code import TITLE as CODE
from hasten.report.code import code_table
from hasten.report.text import printable
from hasten.report.tuning import (
    NO_FINDINGS,
    NO_TRIALS,
    TONES,
    by_hand,
    check_it,
    disturbed,
    headline,
    noise_of,
    setting_of,
    spelled,
    standing,
    trial_ratio,
    use_it,
    worth_of,
)
from hasten.report.tuning_target import TITLE, claimed, trial_row

STYLES: dict[Tone, str] = {"good": "green", "bad": "red", "doubt": "yellow", "plain": ""}
CARRY = " " * len("PROVEN  ")


def tune_card(evidence: Evidence, out: str) -> RenderableType:
    sections: list[RenderableType] = [_verdict(evidence)]
    sections += _section("Why it was slow", _findings(evidence))
    if evidence.naive().code:
        sections += _section(CODE, code_table(evidence.naive().code))
    sections += _section("Tried, each on top of what was kept before it", _trials(evidence))
    if evidence.outcome == "unproven":
        sections += _section("Noise", Text(printable(noise_of(evidence))))
    if evidence.numerics is not None:
        sections += _section("Is it the same training?", _checks(evidence.numerics))
    if evidence.outcome == "recipe" and evidence.speed is not None:
        sections += _section("What it is worth", _worth(evidence))
    if evidence.larger_batch:
        sections += _section(TITLE, _larger_batch(evidence))
    sections += _section("Next", Text("\n".join(_next(evidence, printable(out)))))
    return Group(*sections)


def _verdict(evidence: Evidence) -> Text:
    head = headline(evidence)
    words = Text(head.word, style=f"bold {STYLES[head.tone]}".strip())
    claim = "bold default" if head.beside else "not bold default"
    words.append(f"  {printable(head.claim)}", style=claim)
    if head.beside:
        interval, same = head.beside
        words.append(f" ({interval})\n{CARRY}{same}", style="not bold default")
    return words


def _section(title: str, body: RenderableType) -> list[RenderableType]:
    return [Text(f"\n{title}", style="bold"), Padding(body, (0, 0, 0, 2))]


def _findings(evidence: Evidence) -> RenderableType:
    if not evidence.naive().findings:
        return Text(disturbed(evidence.naive()) or NO_FINDINGS)
    words = disturbed(evidence.naive())
    found = _found(evidence)
    return Group(Text(words), found) if words else found


def _found(evidence: Evidence) -> Table:
    table = _grid()
    for finding in evidence.naive().findings:
        place = f"  {finding.place}" if finding.place else ""
        title = Text(printable(finding.title)).append(printable(place), style="dim")
        table.add_row(Text(printable(finding.code)), title)
    return table


def _trials(evidence: Evidence) -> RenderableType:
    if not evidence.trials:
        return Text(NO_TRIALS)
    table = _grid()
    for trial in evidence.trials:
        word, tone, why = standing(trial, evidence)
        outcome = Text(word, style=STYLES[tone])
        name = Text(printable(trial.candidate.technique))
        brought = [f"with {each}" for each in trial.candidate.along]
        for words in filter(None, (setting_of(trial, evidence), *brought)):
            name.append(f"\n  {printable(words)}", style="dim")
        table.add_row(name, trial_ratio(trial), outcome, Text(printable(why)))
    return table


def _checks(numerics: NumericsClaim) -> RenderableType:
    table = _grid()
    for check in numerics.checks:
        table.add_row(check.name, spelled(check.verdict), Text(printable(check.why)))
    return table


def _worth(evidence: Evidence) -> RenderableType:
    assert evidence.speed is not None  # a recipe has a speed claim
    table = _grid()
    for name, words in worth_of(evidence, evidence.speed):
        table.add_row(name, Text(printable(words)))
    return table


def _larger_batch(evidence: Evidence) -> RenderableType:
    claim = evidence.sooner()
    tried = _grid()
    for trial in evidence.larger_batch:
        name, ratio, outcome, why = trial_row(trial)
        style = STYLES[TONES.get(trial.outcome, "doubt")]
        tried.add_row(Text(name), ratio, Text(outcome, style=style), Text(printable(why)))
    if claim is None:
        return tried
    table = _grid()
    for name, words in claimed(claim):
        table.add_row(name, Text(printable(words)))
    return Group(table, tried)


def _next(evidence: Evidence, out: str) -> list[str]:
    read = ("read it", f"{out}/report.html; all that was measured is in {out}/evidence.json")
    steps, first = by_hand(evidence), _first(evidence)
    if evidence.outcome == "recipe":
        steps += [("use it", use_it(out)), ("check it", check_it(evidence, out))]
    lines = [printable(f"{name:<10}{words}") for name, words in [*steps, read]]
    return [first, *lines] if first else lines


def _first(evidence: Evidence) -> str:
    if evidence.outcome == "recipe":
        return ""
    if evidence.outcome == "nothing_to_gain":
        return "Nothing to apply."
    if evidence.verdict == "refuted":
        return _refuted(evidence)
    if evidence.confirmation is not None and evidence.confirmation.failure:
        return "Find out why a process ended, then run it again."
    if not evidence.ran_out_of_time():
        return "Run it again on a quieter machine."
    noisy = any(each.outcome == "no_verdict" for each in evidence.trials)
    return f"Run it again with more --minutes{', on a quieter machine' if noisy else ''}."


def _refuted(evidence: Evidence) -> str:
    if evidence.numerics is not None and evidence.numerics.verdict == "refuted":
        return "Leave it as it is: what was found is not the same training."
    if evidence.aim.memory_bytes is not None and (evidence.memory or evidence.speed is None):
        longer = "more --minutes, " if evidence.ran_out_of_time() else ""
        return f"Give it {longer}more --memory, or a smaller batch or model."
    return "Leave it as it is: what was found is not faster."


def _grid() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for _ in range(2):
        table.add_column()
    return table
