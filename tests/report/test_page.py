"""The page of a tuning: all of it is there, it stands alone, and hostile names stay text."""

import math
import re
from html.parser import HTMLParser

import msgspec
import pytest

from hasten.records.curves import Curves
from hasten.records.plan import Plan
from hasten.records.recipe import Evidence
from hasten.records.tuning import Aim, Spent
from hasten.records.verdict import MemoryClaim
from hasten.report.page import tune_page
from specimens import (
    CONFIRMATION,
    NOTHING_TO_GAIN,
    NUMERICS,
    PROVEN,
    SPEED,
    UNPROVEN,
    with_findings,
)
from tunings import CURVES, NASTY, PARITY, RICH, hostile

replace = msgspec.structs.replace

TITLES = [
    "From naive to final",
    "Where a step's time went",
    "Why it was slow",
    "What to change in the code",
    "Everything that was tried",
    "Is it the same training?",
    "Memory",
    "When it pays back",
    "Not tried, or not tried again",
    "How to reproduce it",
]
VOID = {"meta", "br", "img", "hr", "input", "link"}
INERT = NASTY.replace("\n", "?").replace("\x1b", "?")
ALL = [PROVEN, NOTHING_TO_GAIN, UNPROVEN, RICH]


class Page(HTMLParser):
    """Its text by section, the elements that it is made of, and whether they are balanced."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.sections: dict[str, str] = {"": ""}
        self._open: list[str] = []
        self._at = ""
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            return
        if self._open[-1:] == ["h2"]:
            self._at = data
            self.sections[data] = ""
        self.sections[self._at] += f"{data.strip()} " if data.strip() else ""

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def show(evidence: Evidence, out: str = "hasten-out") -> dict[str, str]:
    return Page(tune_page(evidence, out)).sections


@pytest.mark.parametrize("evidence", ALL)
def test_a_page_has_the_verdict_first_and_then_all_its_sections(evidence: Evidence) -> None:
    assert list(show(evidence)) == ["", *TITLES]
    assert all(text.strip() != title for title, text in show(evidence).items())


def test_a_proven_page_begins_with_the_claim_and_its_figures() -> None:
    verdict = show(RICH)[""]
    assert "PROVEN train.py:make_task trains 2.39x faster" in verdict
    assert "99 % interval 2.28x to 2.51x, and trains as well (parity)" in verdict
    assert "10,000 -> 23,900 rows/s (noise floor 2.0 %)" in verdict
    assert "plan batched_loader + mixed_precision" in verdict


@pytest.mark.parametrize(
    ("evidence", "word"), [(NOTHING_TO_GAIN, "NOTHING TO GAIN"), (UNPROVEN, "NOT PROVEN")]
)
def test_without_a_proof_the_page_says_why_and_claims_no_speed(
    evidence: Evidence, word: str
) -> None:
    verdict = show(evidence)[""]
    assert f"{word} {evidence.task}: {evidence.why}" in verdict
    assert "x faster" not in verdict
    assert "throughput" not in verdict
    assert "recipe.toml" not in show(evidence)["How to reproduce it"]


def test_the_waterfall_multiplies_what_was_kept_and_ends_at_what_was_confirmed() -> None:
    text = show(RICH)[TITLES[0]]
    for step in ("naive 1.00x", "batched_loader 1.62x", "fused_optimizer 1.70x", "2.45x"):
        assert step in text
    assert "1.70x, dropped" in text
    assert "fresh processes 2.39x 2.28x to 2.51x" in text


def test_each_part_is_shown_with_its_settings_and_its_worth_in_place() -> None:
    text = show(RICH)[TITLES[0]]
    assert "batched_loader - 1.71x (1.66x to 1.75x)" in text
    assert "dtype = bfloat16 1.43x (1.40x to 1.47x), with fused_attention" in text
    assert "fused_optimizer the plan is faster without it" in text


def test_a_worth_that_was_not_measured_says_why() -> None:
    worth = (replace(RICH.worth[0], failure="the worker was killed"),)
    assert "not measured: the worker was killed" in show(replace(RICH, worth=worth))[TITLES[0]]
    assert "What each part is worth in place was not measured." in show(PROVEN)[TITLES[0]]
    one = replace(PROVEN, plan=Plan(parts={"compile": {}}))
    assert "The plan has one part" in show(one)[TITLES[0]]
    assert "compile - - done: 1 graph" in show(one)[TITLES[0]]


def test_a_speed_that_was_not_proven_is_called_so_in_the_waterfall() -> None:
    assert "fresh processes, not proven 1.50x 0.99x to 1.60x" in show(UNPROVEN)[TITLES[0]]


def test_a_plan_that_is_fast_and_another_training_is_no_gain() -> None:
    refuted = replace(PROVEN, outcome="unproven", verdict="refuted", why="gradients differ")
    page = Page(tune_page(refuted, "out"))
    assert "REFUTED train.py:make_task: gradients differ" in page.sections[""]
    assert [each["class"] for each in page.named("rect")][:3] == ["plain", "good", "bad"]
    assert "There is no proven plan" in page.sections["When it pays back"]
    assert "an hour" not in page.sections["When it pays back"]


def test_a_plan_that_is_smaller_and_slower_is_neither_refuted_nor_a_gain_in_speed() -> None:
    slower = replace(SPEED, verdict="refuted", ratio=0.8, low=0.79, high=0.81)
    smaller = replace(
        PROVEN,
        aim=Aim(goal="memory"),
        speed=slower,
        memory=MemoryClaim(verdict="proven", a_bytes=100, b_bytes=60, allowed_bytes=None),
    )
    page = Page(tune_page(smaller, "out"))
    assert "fresh processes 0.80x 0.79x to 0.81x" in page.sections[TITLES[0]]
    assert [each["class"] for each in page.named("rect")][:3] == ["plain", "good", "plain"]
    wrong = replace(smaller, outcome="unproven", verdict="refuted", why="gradients differ")
    page = Page(tune_page(wrong, "out"))
    assert [each["class"] for each in page.named("rect")][:3] == ["plain", "good", "bad"]


def test_processes_that_did_not_finish_are_told() -> None:
    failed = replace(UNPROVEN, speed=None, confirmation=replace(CONFIRMATION, failure="killed"))
    assert "Fresh processes did not finish: killed." in show(failed)[TITLES[0]]


def test_the_time_of_a_step_is_told_before_and_after() -> None:
    text = show(RICH)[TITLES[1]]
    assert "data wait 4.0 ms (40.0 %) 200 us (5.0 %)" in text
    assert "By the plan a step is compute-bound" in text
    assert "one graph" not in text
    assert "Where it goes by the plan was not measured." in show(PROVEN)[TITLES[1]]
    assert "There is no plan to compare it with." in show(NOTHING_TO_GAIN)[TITLES[1]]


def test_the_findings_have_place_cost_bound_and_advice() -> None:
    text = show(RICH)["Why it was slow"]
    assert "The naive step is input-bound: 40 % of a step is spent on data." in text
    assert "train.py:12 4.0 ms 1.67x Fetch whole batches at once." in text
    assert "updating the weights - 1.0 ms 1.11x" in text
    assert "No part of a step stands out." in show(with_findings(PROVEN))["Why it was slow"]


def test_lines_of_code_stand_beside_the_plan() -> None:
    text = show(RICH)["What to change in the code"]
    assert "2.1 ms HST201 train.py:41 `loss.item()` waits for the device" in text


def test_every_trial_is_in_one_of_two_tables_with_its_reason() -> None:
    sections = show(RICH)
    tried, left = sections["Everything that was tried"], sections["Not tried, or not tried again"]
    assert "compile - failed RuntimeError: no compiler batched_loader data-wait - " in tried
    assert "channels_last 0.98x not faster at most 0.995x batched_loader data-wait 0.97x" in tried
    assert "mixed_precision(dtype='bfloat16') 1.44x kept" in tried
    assert "batched_loader + fused_optimizer data-wait 1.43x to 1.45x" in tried
    for words in ("not tried there is no CUDA", "below noise at most", "out of time the time"):
        assert words in left
        assert words not in tried
    for trial in RICH.trials:
        assert (trial.candidate.technique in tried) != (trial.candidate.technique in left)


def test_tables_without_rows_are_sentences() -> None:
    bare = show(replace(NOTHING_TO_GAIN, trials=()))
    assert "no technique answers these findings" in bare["Everything that was tried"]
    assert "Nothing was left out." in bare["Not tried, or not tried again"]
    assert "Nothing was kept" in bare["From naive to final"]
    assert "no plan whose numbers could differ" in bare["Is it the same training?"]
    unchecked = show(replace(PROVEN, numerics=replace(NUMERICS, checks=())))
    assert "Nothing was checked." in unchecked["Is it the same training?"]


def test_parity_is_shown_by_curves_a_band_and_figures() -> None:
    page = Page(tune_page(RICH, "out"))
    curves = [each["class"] for each in page.named("polyline")]
    assert curves == ["curve naive"] * 6 + ["curve plan"] * 6
    (band,) = page.named("polygon")
    assert len((band["points"] or "").split()) == 2 * 40
    text = page.sections["Is it the same training?"]
    assert "6 seeds (0 to 5) of 400 steps each, trained naively and by the plan" in text
    assert "training loss 0.3412 +0.0007 -0.0021 to +0.0035 0.011 0.0052 equivalent" in text


def test_a_plan_whose_proof_trained_nothing_has_curves_too_and_the_page_says_what_they_are() -> (
    None
):
    page = Page(tune_page(replace(PROVEN, curves=CURVES), "out"))
    curves = [each["class"] for each in page.named("polyline")]
    assert curves == ["curve naive"] * 3 + ["curve plan"]
    assert len((page.named("polygon")[0]["points"] or "").split()) == 2 * 40
    text = page.sections["Is it the same training?"]
    assert (
        "3 seeds (1 to 3) of 400 steps each, trained naively, and by the plan from the first of"
        in text
    )
    assert "curves that look alike prove nothing, and the proof is in the checks above" in text
    apart, spread = f"{CURVES.apart():.2g}", f"{CURVES.spread():.2g}"
    assert f"differ by {apart} at most, as means of 10 steps; two naive seeds differ" in text
    assert f"by up to {spread}." in text


def test_curves_that_could_not_be_trained_are_said_and_the_claim_stays() -> None:
    empty = Curves(steps=0, seeds=(), naive=(), plan=(), failure="it was ended")
    page = Page(tune_page(replace(PROVEN, curves=empty), "out"))
    assert not page.named("polyline")
    assert "PROVEN" in page.sections[""]
    text = page.sections["Is it the same training?"]
    assert "no loss curves of both sides: it was ended. No claim rests on them." in text
    page = Page(tune_page(replace(PROVEN, curves=replace(CURVES, plan=(), failure="so")), "out"))
    assert [each["class"] for each in page.named("polyline")] == ["curve naive"] * 3
    assert "no loss curves of both sides: so." in page.sections["Is it the same training?"]


def test_one_seed_has_no_band() -> None:
    one = replace(CURVES, seeds=(1,), naive=CURVES.naive[:1])
    page = Page(tune_page(replace(PROVEN, curves=one), "out"))
    assert "There is no band" in page.sections["Is it the same training?"]
    assert "between them" not in page.sections["Is it the same training?"]


def test_a_curve_that_ended_early_or_has_no_point_is_drawn_as_far_as_it_goes() -> None:
    pairs = list(PARITY.pairs)
    pairs[0] = replace(pairs[0], naive=replace(pairs[0].naive, losses=(1.0, 2.0)))
    pairs[1] = replace(pairs[1], plan=replace(pairs[1].plan, losses=()))
    numerics = replace(NUMERICS, parity=replace(PARITY, pairs=tuple(pairs), figures=()))
    page = Page(tune_page(replace(RICH, numerics=numerics), "out"))
    assert len((page.named("polygon")[0]["points"] or "").split()) == 4
    assert "before the figures were compared" in page.sections["Is it the same training?"]
    none = tuple(replace(each, naive=pairs[1].plan, plan=pairs[1].plan) for each in pairs)
    numerics = replace(NUMERICS, parity=replace(PARITY, pairs=none))
    assert not Page(tune_page(replace(RICH, numerics=numerics), "out")).named("polyline")


@pytest.mark.parametrize(("lowest", "middle"), [(1.0, 153.3), (0.001, 120.0)])
def test_a_loss_that_falls_far_is_drawn_by_powers_of_ten(lowest: float, middle: float) -> None:
    """Of 4, 2 and 1 the one in the middle lies below the middle; of powers of ten it is there."""
    halfway = math.sqrt(4 * lowest) if lowest < 0.4 else 2.0
    falls = replace(CURVES.naive[0], losses=(4.0, halfway, lowest))
    shown = replace(CURVES, seeds=(1,), naive=(falls,), plan=())
    page = Page(tune_page(replace(PROVEN, curves=shown), "out"))
    (line,) = page.named("polyline")
    place = (line["points"] or "").split()[1]
    assert float(place.split(",")[1]) == pytest.approx(middle, abs=0.1)
    words = page.sections["Is it the same training?"]
    assert ("loss 4, by powers of ten" in words) == (lowest < 0.4)


def test_what_became_of_trials_and_pairs_in_the_end_is_told() -> None:
    text = show(replace(PROVEN, dropped={"batched_loader": "it trains worse"}))
    assert "1.50x dropped it trains worse" in text["Everything that was tried"]
    again = replace(CONFIRMATION, begun_again="The training process ended (signal 9).")
    text = show(replace(PROVEN, confirmation=again))
    assert "One pair was begun again: The training process ended" in text["From naive to final"]
    naive = replace(PROVEN.diagnosed[0], disturbed="a step took 9 s")
    shown = show(replace(PROVEN, diagnosed=(naive,)))
    assert "not sure: a step took 9 s." in shown["Why it was slow"]
    last = replace(RICH.diagnosed[-1], disturbed="a step took 8 s")
    shown = show(replace(RICH, diagnosed=(*RICH.diagnosed[:-1], last)))
    assert "not sure: a step took 8 s." in shown["Where a step's time went"]
    assert "not sure" not in shown["Why it was slow"]
    assert "Noise: identical processes differed" in show(UNPROVEN)["Everything that was tried"]


def test_memory_is_told_before_and_after() -> None:
    text = show(RICH)["Memory"]
    assert "the process 300 MiB 200 MiB 0.67x" in text
    assert "tensors of a step 5.0 MiB 3.0 MiB 0.60x" in text
    assert "device" not in text
    assert "the process 300 MiB - " in show(NOTHING_TO_GAIN)["Memory"]


def test_break_even_is_told_with_and_without_the_tuning() -> None:
    text = show(PROVEN)["When it pays back"]
    assert "3 s more to warm up, paid back after 90,000 rows" in text
    # 130 s of tuning and 3 s of warm-up, at a saving of a third of 0.1 ms for each row
    assert "3,990,000 rows, 6.7 min of the naive training, 974.1 epochs" in text
    assert "an hour of training takes 40.0 min" in text
    assert "searching 50 s" in text
    assert "nothing pays back what tuning took: 2.2 min" in show(UNPROVEN)["When it pays back"]
    never = replace(PROVEN, speed=replace(SPEED, b_rows_per_s=9_999.0, break_even_rows=None))
    assert never.break_even_rows() is None
    assert "never paid back" in show(never)["When it pays back"]


def test_what_took_no_time_was_not_done() -> None:
    text = show(replace(PROVEN, spent=Spent(search_s=50.0, ablation_s=1e-5)))["When it pays back"]
    assert "what each part is worth" not in text


def test_the_commands_can_be_copied_and_name_all_that_was_given() -> None:
    text = show(replace(PROVEN, seed=7, minutes=0.5), out="some out")["How to reproduce it"]
    assert "hasten tune train.py:make_task --minutes 0.5 --seed 7 --out 'some out'" in text
    limited = show(replace(PROVEN, aim=Aim(goal="memory", memory_bytes=5)))["How to reproduce it"]
    assert "train.py:make_task --goal memory --memory 5 --minutes 10 --seed 0 --out" in limited
    assert "hasten prove train.py:make_task 'some out/recipe.toml'" in text
    assert "from_recipe('some out/recipe.toml')" in text
    for words in ("5" * 64, "torch 2.13.0", "Some CPU (AVX2)", PROVEN.environment.fingerprint()):
        assert words in text


def test_a_plan_that_was_proven_again_says_when_it_was_searched() -> None:
    again = replace(PROVEN, proven_again="2025-12-31T00:00:00+00:00")
    assert "searched 2025-12-31T00:00:00+00:00" in show(again)["How to reproduce it"]


@pytest.mark.parametrize("evidence", ALL)
def test_hostile_names_stay_text(evidence: Evidence) -> None:
    plain = Page(tune_page(evidence, "out"))
    page = Page(tune_page(hostile(evidence), NASTY))
    kinds = {name for name, _ in plain.elements} | {"polyline", "polygon", "line", "code"}
    assert {name for name, _ in page.elements} <= kinds
    for _, attributes in page.elements:
        assert not any(name.startswith("on") for name in attributes)
    assert sum(text.count(INERT) for text in page.sections.values()) >= 20
    assert "\x1b" not in tune_page(hostile(evidence), NASTY)


@pytest.mark.parametrize("evidence", [*ALL, hostile(RICH)])
def test_the_page_stands_alone(evidence: Evidence) -> None:
    text = tune_page(evidence, "out")
    page = Page(text)
    assert not page.named("script")
    assert not page.named("link")
    loads = {"src", "href", "srcset", "data", "action", "xlink:href", "poster"}
    assert not any(loads & set(attributes) for _, attributes in page.elements)
    assert not re.search(r"url\(|@import|https?:", text)
    (policy,) = (each for each in page.named("meta") if "http-equiv" in each)
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert page.named("html") == [{"lang": "en"}]


@pytest.mark.parametrize("evidence", [*ALL, hostile(RICH)])
def test_every_drawing_says_in_words_what_it_shows(evidence: Evidence) -> None:
    text = tune_page(evidence, "out")
    drawings = re.findall(r'<svg role="img"[^>]*><title>([^<]+)</title>', text)
    assert len(drawings) == text.count('role="img"') >= 1


def test_the_page_of_a_long_tuning_is_small() -> None:
    """Of 40 trials and 6 seeds; the raw rounds are not in it."""
    long = replace(RICH, trials=RICH.trials * 5, confirmation=CONFIRMATION)
    assert len(tune_page(long, "out").encode()) < 60_000
