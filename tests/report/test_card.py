"""The card of a tuning: all of it is there, and hostile names stay inert."""

import io
from typing import Any

import msgspec
import pytest
from rich.console import Console

from cards import HOSTILE, INERT, sections
from hasten.records.finding import Place
from hasten.records.load import Load
from hasten.records.measurement import Memory
from hasten.records.recipe import Evidence
from hasten.records.scan import CodeCost
from hasten.records.tuning import Aim
from hasten.records.verdict import Check, Control, MemoryClaim
from hasten.report.card import tune_card
from hasten.report.code import SHOWN
from specimens import (
    CODE,
    CONFIRMATION,
    DIAGNOSED,
    FINDING,
    NOTHING_TO_GAIN,
    NUMERICS,
    PROVEN,
    SPEED,
    UNPROVEN,
    make_comparison,
    make_trial,
    with_findings,
)

replace = msgspec.structs.replace

IN_CODE = "What to change in the code"
TRIED = "Tried, each on top of what was kept before it"


def show(evidence: Evidence, out: str = "hasten-out", *, terminal: bool = False) -> str:
    console = Console(file=io.StringIO(), width=200, force_terminal=terminal, highlight=False)
    console.print(tune_card(evidence, out))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_card_of_a_recipe_has_all_its_sections_in_order() -> None:
    assert list(sections(show(PROVEN))) == [
        "",
        "Why it was slow",
        IN_CODE,
        TRIED,
        "Is it the same training?",
        "What it is worth",
        "Next",
    ]


def test_a_recipe_is_proven_with_its_figures_and_its_rung() -> None:
    verdict = " ".join(sections(show(PROVEN))[""])
    assert verdict.startswith("PROVEN  train.py:make_task trains 1.50x faster")
    assert "99 % interval 1.40x to 1.60x" in verdict
    assert "stays the same training (rounding)" in verdict


def test_the_findings_say_why_with_their_place() -> None:
    (line,) = sections(show(PROVEN))["Why it was slow"]
    assert line.startswith("data-wait")
    assert "40 % of a step is spent waiting for the next batch  train.py:12" in line


def test_lines_of_code_are_shown_with_what_they_cost_in_a_step() -> None:
    line, more = sections(show(PROVEN))[IN_CODE]
    assert line == "2.1 ms  HST201  `loss.item()` waits for the device  train.py:41"
    assert more.startswith("hasten scan train.py tells why")
    diagnosed = replace(DIAGNOSED, code=())
    clean = replace(PROVEN, diagnosed=(diagnosed,))
    assert IN_CODE not in sections(show(clean))


def test_a_scan_of_odd_paths_can_be_copied_to_a_shell() -> None:
    odd = replace(CODE[0], finding=replace(CODE[0].finding, path="my code/<a>.py"))
    diagnosed = replace(DIAGNOSED, code=(CODE[0], odd))
    more = " ".join(sections(show(replace(PROVEN, diagnosed=(diagnosed,))))[IN_CODE])
    assert "hasten scan 'my code/<a>.py' train.py tells why" in more


def test_only_the_most_costly_lines_are_shown_and_the_rest_is_counted() -> None:
    def shown(*code: CodeCost) -> list[str]:
        diagnosed = replace(DIAGNOSED, code=code)
        return sections(show(replace(PROVEN, diagnosed=(diagnosed,))))[IN_CODE]

    unknown = replace(CODE[0], cost_s=None)
    assert shown(CODE[0], unknown)[1].startswith("-  "), "of which others' costs are known"
    *lines, more = shown(*[unknown] * (SHOWN + 3))
    assert len(lines) == SHOWN
    assert lines[0].startswith(unknown.finding.code)
    assert more.startswith("3 more: hasten scan train.py")


def test_all_that_was_tried_is_shown_the_losers_too() -> None:
    kept, refuted, not_tried = sections(show(PROVEN))[TRIED]
    assert kept.split() == ["batched_loader", "1.50x", "kept", "equal", "to", "the", "bit"]
    assert refuted.startswith("compile")
    assert "refuted" in refuted
    assert "gradients 1 of weight differs" in refuted
    assert not_tried.startswith("fused_optimizer")
    assert " - " in not_tried
    assert "not tried" in not_tried
    assert "AdamW is fused already" in not_tried


def test_settings_that_tell_trials_of_one_technique_apart_stand_below_it() -> None:
    trial = make_trial("loader_workers", "not_faster")
    trials = tuple(
        replace(trial, candidate=replace(trial.candidate, part={"workers": count, "pin": True}))
        for count in (1, 2)
    )
    lines = sections(show(replace(PROVEN, trials=trials)))[TRIED]
    assert [each.strip() for each in lines[1::2]] == ["workers = 1", "workers = 2"]


def test_what_a_change_brought_along_stands_below_it() -> None:
    trial = make_trial("whole_step_graph")
    brought = {"fused_optimizer": {}, "resident\ndata": {}}
    trial = replace(trial, candidate=replace(trial.candidate, along=brought))
    graph, fused, resident = sections(show(replace(PROVEN, trials=(trial,))))[TRIED]
    assert graph.split()[:3] == ["whole_step_graph", "1.50x", "kept"]
    assert fused.split() == ["with", "fused_optimizer"]
    assert resident.split() == ["with", "resident?data"]


def test_every_check_of_the_numerics_is_shown() -> None:
    start, rounding = sections(show(PROVEN))["Is it the same training?"]
    assert start.split(maxsplit=2) == ["start", "proven", "12 digests equal before step 1"]
    assert rounding.startswith("rounding")


def test_what_it_is_worth_is_told_with_noise_warm_up_and_memory() -> None:
    worth = "\n".join(sections(show(PROVEN))["What it is worth"])
    assert "10,000 -> 15,000 rows/s" in worth
    assert "noise floor 2.0 %" in worth
    assert "after 6.7 min of the naive training, with the 2.2 min that tuning took" in worth
    assert "300 MiB of the process -> 200 MiB of the process" in worth
    assert "2.2 min" in worth


def test_what_is_no_faster_never_pays_back_what_tuning_took() -> None:
    slower = replace(SPEED, b_rows_per_s=SPEED.a_rows_per_s)
    assert "never, with the 2.2 min that tuning took" in show(replace(PROVEN, speed=slower))


def test_what_a_proof_took_out_is_no_longer_called_kept() -> None:
    dropped = {"batched_loader": "16 steps a seed fit into the time, and 100 are needed"}
    row, *_ = sections(show(replace(PROVEN, dropped=dropped)))[TRIED]
    assert row.split(maxsplit=3)[:3] == ["batched_loader", "1.50x", "dropped"]
    assert "16 steps a seed" in row


def test_without_a_claim_it_says_what_noise_may_have_hidden_it() -> None:
    load = Load(cores=2, others_cores=0.6, throttled_s=0.0)
    noisy = replace(make_comparison(0.98), load=load)
    (words,) = sections(show(replace(UNPROVEN, control=Control(runs=(noisy,)))))["Noise"]
    assert words == (
        "identical processes differed by 2.0 %; other programs kept 0.6 of 2 cores busy"
    )
    assert "Noise" not in sections(show(PROVEN))


def test_findings_of_a_disturbed_profile_are_said_to_be_unsure() -> None:
    naive = replace(PROVEN.diagnosed[0], disturbed="a step took 332 ms")
    evidence = replace(PROVEN, diagnosed=(naive, *PROVEN.diagnosed[1:]))
    first, *_ = sections(show(evidence))["Why it was slow"]
    assert first == "These shares are not sure: a step took 332 ms."


def test_a_process_that_ended_is_not_answered_by_more_time() -> None:
    lost = replace(CONFIRMATION, failure="It ended (signal 9).")
    late = replace(UNPROVEN.trials[0], outcome="out_of_time", why="the time was spent")
    text = show(replace(UNPROVEN, confirmation=lost, trials=(late,)))
    assert "Find out why a process ended" in text
    assert "--minutes" not in text


@pytest.mark.parametrize(
    ("memory", "shown"),
    [
        (Memory(host_bytes=1 << 30, device_allocated_bytes=2 << 30), "2.0 GiB on the device"),
        (Memory(host_bytes=1 << 30), "1.0 GiB of the process"),
        (Memory(host_bytes=0), "0 B of the process"),
        (Memory(), "not measured"),
    ],
)
def test_memory_that_was_not_measured_is_not_zero(memory: Memory, shown: str) -> None:
    evidence = replace(PROVEN, confirmation=replace(CONFIRMATION, a_memory=memory))
    assert f"{shown} -> 200 MiB of the process" in show(evidence)


def test_the_next_steps_of_a_recipe_can_be_copied() -> None:
    following = sections(show(PROVEN, out="some/out"))["Next"]
    assert following == [
        "use it    hasten.PerformanceOptimizer.from_recipe('some/out/recipe.toml')",
        "check it  hasten prove train.py:make_task some/out/recipe.toml",
        "read it   some/out/report.html; all that was measured is in some/out/evidence.json",
    ]


def test_nothing_to_gain_says_so_and_shows_what_was_tried() -> None:
    text = show(NOTHING_TO_GAIN)
    assert text.startswith("NOTHING TO GAIN  train.py:make_task: no change that was tried made")
    assert list(sections(text)) == [
        "",
        "Why it was slow",
        IN_CODE,
        TRIED,
        "Next",
    ]
    assert "at most 1.004x" in text
    assert "Nothing to apply" in text
    assert "hasten-out/evidence.json" in text
    assert "recipe.toml" not in text


def test_a_claim_that_was_not_proven_says_so_and_offers_no_recipe() -> None:
    text = show(UNPROVEN)
    assert text.startswith("NOT PROVEN  train.py:make_task: fresh processes gave 0.990x to 1.500x")
    assert "What it is worth" not in text
    assert "Is it the same training?" in text
    assert "Run it again on a quieter machine." in text
    assert "recipe.toml" not in text
    assert "faster" not in sections(text)[""][0]


def test_a_claim_that_was_refuted_says_so() -> None:
    evidence = replace(UNPROVEN, verdict="refuted", why="gradients 2 of weight differs")
    text = show(evidence)
    assert text.startswith("REFUTED  train.py:make_task: gradients 2 of weight differs")
    assert "Leave it as it is: what was found is not faster." in text
    assert "quieter machine" not in text


OVER = MemoryClaim(verdict="refuted", a_bytes=100, b_bytes=90, allowed_bytes=50)


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        ({"numerics": replace(NUMERICS, verdict="refuted")}, "is not the same training."),
        ({"aim": Aim(memory_bytes=50), "memory": OVER}, "Give it more --memory"),
        ({"aim": Aim(memory_bytes=50), "speed": None}, "Give it more --memory"),
        (
            {"aim": Aim(memory_bytes=50), "speed": None, "cut_short": ("mixed_precision",)},
            "Give it more --minutes, more --memory",
        ),
        ({}, "is not faster."),
    ],
)
def test_what_to_do_next_answers_what_was_refuted(change: dict[str, Any], advice: str) -> None:
    assert advice in show(replace(UNPROVEN, verdict="refuted", **change))


def test_noise_is_not_answered_by_more_time_alone() -> None:
    late = replace(UNPROVEN.trials[0], outcome="out_of_time", why="the time was spent")
    noisy = replace(UNPROVEN.trials[0], outcome="no_verdict", why="too noisy")
    assert "with more --minutes." in show(replace(UNPROVEN, trials=(late,)))
    assert "more --minutes, on a quieter machine." in show(replace(UNPROVEN, trials=(late, noisy)))


def test_what_fits_now_and_did_not_before_is_said_first_with_what_it_costs() -> None:
    memory = MemoryClaim(verdict="proven", a_bytes=100, b_bytes=60, allowed_bytes=80)
    slower = replace(PROVEN.speed, verdict="refuted", ratio=0.8, low=0.7, high=0.9)
    text = show(replace(PROVEN, aim=Aim(memory_bytes=80), memory=memory, speed=slower))
    assert "PROVEN  train.py:make_task takes 60 B instead of 100 B at the peak of a step" in text
    assert "1.25x the time, 99 % interval 1.11x to 1.43x" in text


def test_a_tuning_without_findings_and_trials_says_so() -> None:
    text = show(with_findings(replace(NOTHING_TO_GAIN, trials=())))
    assert "No part of a step stands out." in text
    assert "no technique answers these findings" in text


def test_a_finding_without_a_place_is_shown_without_one() -> None:
    (line,) = sections(show(with_findings(PROVEN, replace(FINDING, place=None))))["Why it was slow"]
    assert line.endswith("waiting for the next batch")


def hostile(evidence: Evidence) -> Evidence:
    """Every text that comes from the user's code or a file, as bad as it can be."""
    finding = replace(
        FINDING, code=HOSTILE, title=HOSTILE, advice=HOSTILE, place=Place(path=HOSTILE, line=1)
    )
    numerics = evidence.numerics and replace(
        evidence.numerics, checks=(Check(name="start", verdict="proven", why=HOSTILE),)
    )
    return replace(
        with_findings(evidence, finding),
        task=HOSTILE,
        why=HOSTILE,
        trials=(make_trial(HOSTILE, "failed", HOSTILE),),
        numerics=numerics,
    )


@pytest.mark.parametrize("evidence", [PROVEN, NOTHING_TO_GAIN, UNPROVEN])
def test_hostile_names_are_shown_inert(evidence: Evidence) -> None:
    text = show(hostile(evidence), out=HOSTILE)
    assert all(line.isprintable() for line in text.split("\n"))
    assert text.count(INERT) >= 6
    assert "🐛" not in text


def test_hostile_names_add_no_escape_on_a_terminal() -> None:
    text = show(hostile(PROVEN), out=HOSTILE, terminal=True)
    assert "\x1b[2J" not in text
    assert "\x07" not in text
    assert "\r" not in text
    assert "[bold]x[/bold][/nothing]" in text


def test_a_terminal_gets_colours_and_a_pipe_does_not() -> None:
    assert "\x1b[" in show(PROVEN, terminal=True)
    assert "\x1b[" not in show(PROVEN)


def test_for_memory_the_peak_is_the_verdict_and_time_its_price() -> None:
    claim = MemoryClaim(verdict="proven", a_bytes=8 << 20, b_bytes=3 << 20, allowed_bytes=4 << 20)
    slower = replace(SPEED, ratio=0.5, low=0.45, high=0.55, verdict="refuted")
    smaller = replace(PROVEN, aim=Aim(goal="memory"), memory=claim, speed=slower)
    text = show(smaller)
    assert "takes 3.0 MiB instead of 8.0 MiB at the peak of a step" in text
    assert "2.00x the time, 99 % interval 1.82x to 2.22x" in text
    assert "8.0 MiB -> 3.0 MiB, 4.0 MiB allowed" in text
    assert "0.50x faster" not in text
