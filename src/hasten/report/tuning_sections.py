"""The report of a tuning, section by section, for the page and for Markdown."""

from hasten.records.recipe import Evidence
from hasten.report.blocks import Section
from hasten.report.text import duration
from hasten.report.tuning import worth_of
from hasten.report.tuning_proof import (
    code_changes,
    findings,
    reproduce,
    same_training,
    trials,
    untried,
)
from hasten.report.tuning_speed import break_even, gain, memory, step_time
from hasten.report.tuning_target import claimed, larger_batch


def key_figures(evidence: Evidence) -> list[tuple[str, str]]:
    """What stands beside the verdict. Only a proven claim has a worth."""
    claim = evidence.sooner()
    changed = claimed(claim)[:2] if claim else []
    if evidence.outcome == "recipe" and evidence.speed is not None:
        return [*changed, *worth_of(evidence, evidence.speed), ("plan", str(evidence.plan))]
    tried = sum(each.comparison is not None for each in evidence.trials)
    return [
        *changed,
        ("changes timed", str(tried)),
        ("tuning took", duration(evidence.spent.total_s())),
    ]


def tune_sections(evidence: Evidence, out: str) -> list[Section]:
    return [
        *larger_batch(evidence),
        gain(evidence),
        step_time(evidence),
        findings(evidence),
        *code_changes(evidence),
        trials(evidence),
        same_training(evidence),
        memory(evidence),
        break_even(evidence),
        untried(evidence),
        reproduce(evidence, out),
    ]
