"""What a tuning looked at, as sections of a report: findings, trials, the proof, how to repeat."""

import shlex

from hasten.records.parity import Parity
from hasten.records.recipe import Evidence
from hasten.records.trial import UNTRIED, Trial
from hasten.records.tuning import Aim
from hasten.report.blocks import Block, Cell, Chart, Commands, Section, Words, code, make_grid
from hasten.report.charts import curves
from hasten.report.environment import machine_rows
from hasten.report.text import duration, printable
from hasten.report.tuning import (
    NO_FINDINGS,
    NO_TRIALS,
    TONES,
    VERDICT_TONES,
    by_hand,
    check_it,
    spelled,
    trial_interval,
    trial_ratio,
    use_it,
)


def findings(evidence: Evidence) -> Section:
    naive = evidence.naive()
    blocks: list[Block] = [Words(f"The naive step is {naive.limit}: {naive.why}.")]
    rows = [
        (
            code(each.code),
            each.title,
            code(str(each.place)) if each.place else "-",
            duration(each.cost_s),
            f"{each.bound:.2f}x",
            each.advice,
        )
        for each in naive.findings
    ]
    headings = ("finding", "what", "where", "of a step", "at most", "what helps")
    blocks.append(make_grid(headings, rows, figures=(3, 4)) if rows else Words(NO_FINDINGS))
    if rows:
        blocks.append(Words("At most so many times faster would a step be if that took no time."))
    blocks += [Words(f"To {name} by hand: {words}") for name, words in by_hand(evidence)]
    return Section("Why it was slow", tuple(blocks))


def trials(evidence: Evidence) -> Section:
    title = "Everything that was tried"
    tried = [each for each in evidence.trials if each.outcome not in UNTRIED]
    if not tried:
        words = "Nothing was run." if evidence.trials else NO_TRIALS
        return Section(title, (Words(words),))
    headings = ("change", "ratio", "outcome", "why", "on top of", "against", "interval")
    blocks: list[Block] = [make_grid(headings, [_trial(each) for each in tried], figures=(1, 6))]
    if any(each.detail for each in tried):
        blocks.append(Words("The tracebacks of what failed are in evidence.json."))
    return Section(title, tuple(blocks))


def _trial(trial: Trial) -> tuple[str | Cell, ...]:
    change, finding = _change(trial)
    ratio, on = trial_ratio(trial), code(str(trial.on))
    return change, ratio, _outcome(trial), trial.why, on, finding, trial_interval(trial)


def _change(trial: Trial) -> tuple[Cell, Cell]:
    candidate = trial.candidate
    name = candidate.key() if candidate.part else candidate.technique
    return code(name), code(candidate.finding)


def _outcome(trial: Trial) -> Cell:
    return Cell(spelled(trial.outcome), tone=TONES.get(trial.outcome, "doubt"))


def untried(evidence: Evidence) -> Section:
    left = [each for each in evidence.trials if each.outcome in UNTRIED]
    if not left:
        block: Block = Words("Nothing was left out.")
    else:
        rows = [(*_change(each), _outcome(each), each.why) for each in left]
        block = make_grid(("change", "against", "outcome", "why"), rows)
    return Section("What was not tried", (block,))


def same_training(evidence: Evidence) -> Section:
    title = "Is it the same training?"
    claim = evidence.numerics
    if claim is None:
        return Section(title, (Words("There is no plan whose numbers could differ."),))
    blocks: list[Block] = [Words(f"The claim is {spelled(claim.rung)}: {claim.rung.meaning()}.")]
    rows = [
        (each.name, Cell(spelled(each.verdict), tone=VERDICT_TONES[each.verdict]), each.why)
        for each in claim.checks
    ]
    blocks.append(
        make_grid(("check", "verdict", "why"), rows) if rows else Words("Nothing was checked.")
    )
    if claim.parity is not None:
        blocks += _parity(claim.parity)
    return Section(title, tuple(blocks))


def _parity(parity: Parity) -> list[Block]:
    rows = [
        (
            each.name,
            f"{each.naive:.4g}",
            f"{each.difference:+.2g}",
            f"{each.low:+.2g} to {each.high:+.2g}",
            f"{each.margin:.2g}",
            f"{each.spread:.2g}",
            each.likeness,
        )
        for each in parity.figures
    ]
    seeds = ", ".join(str(each.seed) for each in parity.pairs)
    count = f"{len(parity.pairs)} seed{'' if len(parity.pairs) == 1 else 's'}"
    words = f"{count} ({seeds}), {parity.steps:,} steps each, naively and by the plan"
    title = f"Training losses of {words}, with the band between the naive seeds"
    headings = ("figure", "naive", "by the plan", "interval", "margin", "another seed", "")
    return [
        Words(f"Trained from {words}:"),
        Chart(curves(parity.pairs, parity.steps, title)),
        make_grid(headings, rows, figures=range(1, 6))
        if rows
        else Words("It was decided before the figures were compared."),
    ]


def _aim(aim: Aim) -> str:
    goal = " --goal memory" if aim.goal == "memory" else ""
    return goal if aim.memory_bytes is None else f"{goal} --memory {aim.memory_bytes}"


def reproduce(evidence: Evidence, out: str) -> Section:
    task = shlex.quote(printable(evidence.task))
    aim = _aim(evidence.aim) + (" --allow batch-size" if evidence.larger_batch else "")
    again = f"hasten tune {task}{aim} --seed {evidence.seed} --out {shlex.quote(out)}"
    proven = evidence.outcome == "recipe"
    commands = [again, check_it(evidence, out)] if proven else [again]
    blocks: list[Block] = [Commands(tuple(commands))]
    if proven:
        blocks += [Words("To use it in a training of your own:"), Commands((use_it(out),))]
    rows: list[tuple[str | Cell, ...]] = [
        ("made", f"{evidence.created} by hasten {evidence.hasten}"),
        ("seed", str(evidence.seed)),
        ("subject", code(evidence.subject)),
        *machine_rows(evidence.environment).items(),
    ]
    if evidence.proven_again:
        rows.insert(1, ("searched", f"{evidence.proven_again}; that plan was proven again"))
    blocks += [
        make_grid(("", ""), rows),
        Words("All that was measured, with its raw rounds and their order, is in evidence.json."),
    ]
    return Section("How to reproduce it", tuple(blocks))
