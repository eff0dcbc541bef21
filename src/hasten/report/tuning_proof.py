"""What a tuning looked at, as sections of a report: findings, trials, the proof, how to repeat."""

from collections.abc import Sequence

from hasten.records.curves import Curves, steps_a_point
from hasten.records.parity import ParityFigure
from hasten.records.recipe import Evidence
from hasten.records.trial import UNTRIED, Trial
from hasten.report.blocks import Block, Cell, Chart, Commands, Section, Words, code, make_grid
from hasten.report.charts import curves
from hasten.report.code import TITLE, code_rows, more_of_it
from hasten.report.environment import machine_rows
from hasten.report.text import duration
from hasten.report.tuning import (
    NO_FINDINGS,
    NO_TRIALS,
    TONES,
    VERDICT_TONES,
    by_hand,
    check_it,
    disturbed,
    noise_of,
    spelled,
    standing,
    trial_interval,
    trial_ratio,
    tune_it,
    use_it,
)

PROVED_BY = "The parity check compares what they come to, in the table below."
NOT_PROVED_BY = (
    "They are here to be looked at: curves that look alike prove nothing, and the proof is in the"
    " checks above."
)

MARGIN = (
    "Between seeds: the standard deviation of the naive figures. Few seeds tell it only roughly;"
    " the margin is the least that it may be by them, and a thousandth of the figure at least."
)
ON_THE_PAGE = "(The curves are drawn in report.html.)"


def findings(evidence: Evidence) -> Section:
    naive = evidence.naive()
    blocks: list[Block] = [Words(f"The naive step is {naive.limit}: {naive.why}.")]
    if words := disturbed(naive):
        blocks.append(Words(words))
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
        blocks.append(
            Words("At most: how many times as fast a step would be if that took no time at all.")
        )
    blocks += [Words(f"To {name} by hand: {words}") for name, words in by_hand(evidence)]
    return Section("Why it was slow", tuple(blocks))


def code_changes(evidence: Evidence) -> list[Section]:
    costs = evidence.naive().code
    if not costs:
        return []
    rows = [
        (cost, code(rule), code(place), message) for cost, rule, place, message in code_rows(costs)
    ]
    grid = make_grid(("of a step", "rule", "where", "what"), rows, figures=(0,))
    return [Section(TITLE, (grid, Words(more_of_it(costs))))]


def trials(evidence: Evidence) -> Section:
    title = "Everything that was tried"
    tried = [each for each in evidence.trials if each.outcome not in UNTRIED]
    if not tried:
        words = "Nothing was run." if evidence.trials else NO_TRIALS
        return Section(title, (Words(words),))
    headings = ("change", "ratio", "outcome", "why", "on top of", "against", "interval")
    rows = [_trial(each, evidence) for each in tried]
    blocks: list[Block] = [make_grid(headings, rows, figures=(1, 6))]
    if evidence.outcome == "unproven":
        blocks.append(Words(f"Noise: {noise_of(evidence)}."))
    if any(each.detail for each in tried):
        blocks.append(Words("The tracebacks of what failed are in evidence.json."))
    return Section(title, tuple(blocks))


def _trial(trial: Trial, evidence: Evidence) -> tuple[str | Cell, ...]:
    change, finding = _change(trial)
    ratio, on = trial_ratio(trial), code(str(trial.on))
    word, tone, why = standing(trial, evidence)
    return change, ratio, Cell(word, tone=tone), why, on, finding, trial_interval(trial)


def _change(trial: Trial) -> tuple[Cell, Cell]:
    return code(trial.candidate.words(settings=True)), code(trial.candidate.finding)


def _outcome(trial: Trial) -> Cell:
    return Cell(spelled(trial.outcome), tone=TONES.get(trial.outcome, "doubt"))


def untried(evidence: Evidence) -> Section:
    left = [each for each in evidence.trials if each.outcome in UNTRIED]
    if not left:
        block: Block = Words("Nothing was left out.")
    else:
        rows = [(*_change(each), _outcome(each), each.why) for each in left]
        block = make_grid(("change", "against", "outcome", "why"), rows)
    return Section("Not tried, or not tried again", (block,))


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
    drawn = evidence.drawn_curves()
    if drawn is not None:
        blocks += _curves(drawn, proving=claim.parity is not None)
    if claim.parity is not None:
        blocks += [_figures(claim.parity.figures), Words(MARGIN)]
    return Section(title, tuple(blocks))


def _curves(drawn: Curves, *, proving: bool) -> list[Block]:
    """``proving``: these are trainings that the parity check was made of."""
    seeds = _runs(drawn.seeds)
    count = f"{len(drawn.seeds)} seed{'' if len(drawn.seeds) == 1 else 's'}"
    trained = f"{count} ({seeds}) of {drawn.steps:,} steps each, trained naively"
    if len(drawn.plan) == len(drawn.seeds):
        trained += " and by the plan"
    elif drawn.plan:
        first = "the first" if len(drawn.plan) == 1 else f"the first {len(drawn.plan)}"
        trained += f", and by the plan from {first} of them"
    blocks: list[Block] = []
    if drawn.naive:
        title = f"Training losses of {trained}, with the band between the naive seeds"
        use = PROVED_BY if proving else NOT_PROVED_BY
        drawing = curves(drawn, title)
        blocks = [
            Words(f"Loss curves of {trained}. {use}"),
            *([Chart(drawing, instead=ON_THE_PAGE)] if drawing else []),
            *([Words(_apart(drawn))] if drawn.plan else []),
        ]
    if drawn.failure:
        missing = "more loss curves" if drawn.plan else "loss curves of both sides"
        blocks.append(Words(f"There are no {missing}: {drawn.failure}. No claim rests on them."))
    return blocks


def _runs(seeds: Sequence[int]) -> str:
    """All by name, or the first and the last where there is none missing."""
    first, last = min(seeds, default=0), max(seeds, default=0)
    if len(seeds) > 2 and tuple(seeds) == tuple(range(first, last + 1)):
        return f"{first} to {last}"
    return ", ".join(map(str, seeds))


def _apart(drawn: Curves) -> str:
    if not any(each.losses for each in drawn.naive):
        return "No loss of the naive training was finite."
    run = steps_a_point(drawn.steps)
    means = f", as means of {run} steps" if run > 1 else ""
    apart = f"differ by {drawn.apart():.2g} at most" if drawn.apart() else "do not differ"
    words = f"From the same seed both sides {apart}{means}"
    if len(drawn.naive) < 2:
        return f"{words}. There is no band: one seed took the time for all."
    return f"{words}; two naive seeds differ by up to {drawn.spread():.2g}."


def _figures(figures: tuple[ParityFigure, ...]) -> Block:
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
        for each in figures
    ]
    if not rows:
        return Words("It was decided before the figures were compared.")
    headings = (
        "figure",
        "naive",
        "the plan's difference",
        "interval",
        "margin",
        "between seeds",
        "",
    )
    return make_grid(headings, rows, figures=range(1, 6))


def reproduce(evidence: Evidence, out: str) -> Section:
    proven = evidence.outcome == "recipe"
    commands = [tune_it(evidence, out), *([check_it(evidence, out)] if proven else [])]
    blocks: list[Block] = [Commands(tuple(dict.fromkeys(commands)))]
    if proven:
        blocks += [Words("To use it in a training of your own:"), Commands((use_it(out),))]
    rows: list[tuple[str | Cell, ...]] = [
        ("made", f"{evidence.created} by hasten {evidence.hasten}"),
        ("seed", str(evidence.seed)),
        ("digest of the task", code(evidence.subject)),
        *machine_rows(evidence.environment).items(),
    ]
    if evidence.proven_again:
        rows.insert(1, ("searched", f"{evidence.proven_again}; that plan was proven again"))
    blocks += [
        make_grid(("", ""), rows),
        Words("All that was measured, with its raw rounds and their order, is in evidence.json."),
    ]
    return Section("How to reproduce it", tuple(blocks))
