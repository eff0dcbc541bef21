"""What is tried, in which order, and why something is not."""

import pytest

from hasten.records.finding import Finding
from hasten.records.plan import Plan, RawPart, Rung
from hasten.records.trial import Candidate, Offer, Trial
from hasten.tune.propose import propose
from specimens import FINDING

FLOOR = 1.02


def finding(code: str, bound: float = 2.0) -> Finding:
    return Finding(code=code, title=code, advice="", place=None, cost_s=0.1, bound=bound)


def offer(
    technique: str,
    *answers: str,
    rung: Rung = Rung.BITWISE,
    parts: tuple[RawPart, ...] = ({},),
    slow: bool = False,
    refusal: str | None = None,
) -> Offer:
    return Offer(
        technique=technique,
        rung=rung,
        answers=answers or ("data-wait",),
        parts=parts,
        changes_data=technique == "loader",
        slow_to_prepare=slow,
        refusal=refusal,
    )


def names(tried: list[Candidate]) -> list[str]:
    return [candidate.technique for candidate in tried]


def only(not_tried: list[Trial]) -> Trial:
    (trial,) = not_tried
    assert trial.outcome == "not_tried"
    assert trial.comparison is None
    return trial


def test_an_offer_that_answers_a_finding_becomes_a_candidate() -> None:
    tried, not_tried = propose([FINDING], [offer("loader", parts=({"workers": 2},))], FLOOR)
    assert not_tried == []
    assert tried == [
        Candidate(
            technique="loader",
            part={"workers": 2},
            rung=Rung.BITWISE,
            finding="data-wait",
            bound=FINDING.bound,
            changes_data=True,
        )
    ]


def test_an_offer_that_answers_no_finding_is_not_mentioned() -> None:
    assert propose([FINDING], [offer("compile", "eager-model")], FLOOR) == ([], [])


def test_without_findings_nothing_is_tried() -> None:
    assert propose([], [offer("loader")], FLOOR) == ([], [])


def test_every_setting_of_an_offer_is_a_candidate_in_the_given_order() -> None:
    parts: tuple[RawPart, ...] = ({"mode": "b"}, {"mode": "a"}, {"mode": "b", "x": 1})
    tried, _ = propose([FINDING], [offer("loader", parts=parts)], FLOOR)
    assert [candidate.part for candidate in tried] == list(parts)


def test_what_is_quick_to_prepare_comes_before_what_is_slow() -> None:
    offers = [offer("compile", slow=True), offer("fused", rung=Rung.ROUNDING)]
    assert names(propose([FINDING], offers, FLOOR)[0]) == ["fused", "compile"]


def test_what_changes_the_numbers_less_comes_first() -> None:
    offers = [offer("fused", rung=Rung.ROUNDING), offer("loader", rung=Rung.BITWISE)]
    assert names(propose([FINDING], offers, FLOOR)[0]) == ["loader", "fused"]


def test_what_could_gain_more_comes_first() -> None:
    findings = [finding("data-wait", 1.2), finding("slow-optimizer", 1.5)]
    offers = [offer("loader"), offer("fused", "slow-optimizer")]
    assert names(propose(findings, offers, FLOOR)[0]) == ["fused", "loader"]


def test_an_answer_to_two_findings_is_tried_once_for_the_larger() -> None:
    findings = [finding("data-wait", 1.2), finding("slow-optimizer", 1.5)]
    tried, not_tried = propose(findings, [offer("all", "data-wait", "slow-optimizer")], FLOOR)
    assert [(each.technique, each.finding, each.bound) for each in tried] == [
        ("all", "slow-optimizer", 1.5)
    ]
    assert not_tried == []


def test_settings_that_differ_only_in_the_order_of_keys_are_one() -> None:
    parts: tuple[RawPart, ...] = ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert len(propose([FINDING], [offer("loader", parts=parts)], FLOOR)[0]) == 1


def test_settings_that_look_alike_but_differ_in_type_are_two() -> None:
    parts: tuple[RawPart, ...] = ({"mode": "1"}, {"mode": 1})
    assert len(propose([FINDING], [offer("loader", parts=parts)], FLOOR)[0]) == 2


def test_a_refusal_is_the_reason() -> None:
    refused = offer("loader", parts=(), refusal="the data is not in memory")
    tried, not_tried = propose([FINDING], [refused], FLOOR)
    assert tried == []
    assert only(not_tried).why == "the data is not in memory"


def test_an_offer_without_a_setting_worth_a_trial_is_not_tried() -> None:
    tried, not_tried = propose([FINDING], [offer("loader", parts=())], FLOOR)
    assert tried == []
    assert only(not_tried).why == "it has no setting worth a trial here"


@pytest.mark.parametrize("rung", [Rung.PARITY, Rung.CHANGES_TRAINING])
def test_a_rung_that_cannot_be_proven_is_not_tried(rung: Rung) -> None:
    tried, not_tried = propose([FINDING], [offer("amp", rung=rung)], FLOOR)
    assert tried == []
    assert f"on the {rung.replace('_', ' ')} rung" in only(not_tried).why


@pytest.mark.parametrize(("bound", "is_tried"), [(1.0, False), (FLOOR, False), (1.0201, True)])
def test_what_cannot_beat_the_noise_is_not_tried(bound: float, is_tried: bool) -> None:
    tried, not_tried = propose([finding("data-wait", bound)], [offer("loader")], FLOOR)
    assert bool(tried) == is_tried
    assert bool(not_tried) != is_tried
    if not is_tried:
        (trial,) = not_tried
        assert trial.outcome == "below_noise"
        assert trial.why == f"could gain {bound:.3f}x at most, and noise here is 1.020x"


def test_on_a_machine_of_nothing_but_noise_nothing_is_tried() -> None:
    tried, not_tried = propose([finding("data-wait", 1e9)], [offer("loader")], float("inf"))
    assert tried == []
    assert len(not_tried) == 1


def test_a_candidate_is_put_on_top_of_the_incumbent() -> None:
    (candidate,), _ = propose([FINDING], [offer("loader", parts=({"workers": 2},))], FLOOR)
    incumbent = Plan(parts={"fused": {}})
    assert candidate.plan_on(incumbent).parts == {"fused": {}, "loader": {"workers": 2}}
    assert incumbent.parts == {"fused": {}}
