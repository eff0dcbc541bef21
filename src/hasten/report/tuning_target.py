"""What a tuning says of a larger batch, which is another training: its claim, apart from all other
ones, and every batch that was tried."""

from hasten.records.recipe import Evidence
from hasten.records.target import TimeToTarget
from hasten.records.trial import Trial
from hasten.report.blocks import Block, Cell, Section, Words, code, make_grid
from hasten.report.text import interval
from hasten.report.tuning import TONES, spelled, trial_ratio

TITLE = "A larger batch: another training"


def claimed(claim: TimeToTarget) -> list[tuple[str, str]]:
    """Name and words of all that is claimed."""
    target = ", ".join(f"{name} {value:.4g}" for name, value in claim.means().items())
    seeds = f"{len(claim.seeds)} seeds of {claim.steps:,} steps"
    speed = claim.speed
    rate = f"{speed.a_rows_per_s:,.0f} -> {speed.b_rows_per_s:,.0f} rows/s"
    return [
        ("time to target", f"{claim.ratio:.2f}x as soon ({interval(claim.low, claim.high)})"),
        ("it changes", claim.changes),
        ("the target", f"{target}; what the plan comes to at its own batch, over {seeds}"),
        ("judged by", _judged_by(claim)),
        ("rows", f"{rate}, of which more may be needed"),
    ]


def _judged_by(claim: TimeToTarget) -> str:
    if len(claim.seeds[0].target) > 1:
        return "the training loss and the evaluation"
    return "the training loss alone: the task has no evaluation data"


def trial_row(trial: Trial) -> tuple[str, str, str, str]:
    part = trial.candidate.part
    name = f"times = {part['times']}" if part else "any"
    return name, trial_ratio(trial), spelled(trial.outcome), trial.why


def larger_batch(evidence: Evidence) -> list[Section]:
    """None where none was allowed."""
    if not evidence.larger_batch:
        return []
    blocks: list[Block] = []
    claim = evidence.sooner()
    if claim is None:
        blocks.append(Words("None was proven to be sooner at the target: the batch stays."))
    else:
        blocks += [make_grid(("", ""), claimed(claim)), _seeds(claim)]
    rows = []
    for trial in evidence.larger_batch:
        name, ratio, outcome, why = trial_row(trial)
        rows.append((code(name), ratio, Cell(outcome, tone=TONES.get(trial.outcome, "doubt")), why))
    blocks += [
        Words("All that were tried, with their rows a second, which alone decide nothing:"),
        make_grid(("batch", "rows a second", "outcome", "why"), rows, figures=(1,)),
    ]
    return [Section(TITLE, tuple(blocks))]


def _seeds(claim: TimeToTarget) -> Block:
    rows = [(str(each.seed), f"{each.a_rows:,}", f"{each.b_rows:,}") for each in claim.seeds]
    headings = ("seed", "not there yet at the own batch, rows", "there with the larger, rows")
    return make_grid(headings, rows, figures=(0, 1, 2))
