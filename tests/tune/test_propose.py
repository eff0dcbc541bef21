"""What is tried, in which order, and why something is not."""

from typing import Any

import msgspec
import pytest

from hasten.records.finding import Finding
from hasten.records.plan import Plan, RawPart, Rung
from hasten.records.trial import Candidate, Conflict, Offer, Trial
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
    **more: Any,
) -> Offer:
    return Offer(
        technique=technique,
        rung=rung,
        answers=answers or ("data-wait",),
        parts=parts,
        changes_data=technique == "loader",
        slow_to_prepare=slow,
        refusal=refusal,
        **more,
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


def test_what_is_slow_to_prepare_comes_before_what_could_gain_little() -> None:
    findings = [finding("eager-model", 2.0), finding("data-wait", 1.04)]
    offers = [
        offer("loader"),
        offer("compile", "eager-model", slow=True),
        offer("graph", "eager-model"),
    ]
    assert names(propose(findings, offers, FLOOR)[0]) == ["graph", "compile", "loader"]


def test_what_makes_processes_alike_comes_first_of_all_but_not_for_little() -> None:
    offers = [
        offer("fused", "slow-optimizer"),
        msgspec.structs.replace(offer("kept", "page-faults"), steadies=True),
    ]
    for bound, order in ((1.2, ["kept", "fused"]), (1.04, ["fused", "kept"])):
        findings = [finding("slow-optimizer", 2.0), finding("page-faults", bound)]
        assert names(propose(findings, offers, FLOOR)[0]) == order


def test_what_changes_the_numbers_less_comes_first() -> None:
    offers = [offer("fused", rung=Rung.ROUNDING), offer("loader", rung=Rung.BITWISE)]
    assert names(propose([FINDING], offers, FLOOR)[0]) == ["loader", "fused"]


def test_answers_come_in_the_order_of_the_findings() -> None:
    findings = [finding("slow-optimizer", 1.2), finding("data-wait", 1.5)]
    offers = [offer("loader"), offer("fused", "slow-optimizer", rung=Rung.ROUNDING)]
    assert names(propose(findings, offers, FLOOR)[0]) == ["fused", "loader"]


@pytest.mark.parametrize("others", [[], [finding("data-wait", 1.01)]])
def test_an_answer_to_two_findings_is_tried_once_for_the_first_that_counts(
    others: list[Finding],
) -> None:
    findings = [*others, finding("slow-optimizer", 1.5), finding("data-wait", 2.0)]
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
    useless = msgspec.structs.replace(offer("loader", parts=()), untried="it is so already")
    tried, not_tried = propose([FINDING], [useless], FLOOR)
    assert tried == []
    assert only(not_tried).why == "it is so already"


def test_what_changes_the_training_is_not_tried_unasked() -> None:
    tried, not_tried = propose([FINDING], [offer("amp", rung=Rung.CHANGES_TRAINING)], FLOOR)
    assert tried == []
    assert "changes the training" in only(not_tried).why


def test_another_precision_is_tried_after_what_keeps_it() -> None:
    offers = [offer("amp", rung=Rung.PARITY), offer("fused", rung=Rung.ROUNDING)]
    assert names(propose([FINDING], offers, FLOOR)[0]) == ["fused", "amp"]


def test_what_leaves_others_nothing_to_do_comes_before_them() -> None:
    offers = [offer("batched"), offer("resident", instead_of=("batched", "workers"))]
    assert names(propose([FINDING], offers, FLOOR)[0]) == ["resident", "batched"]


RESIDENT = offer("resident", instead_of=("batched",))


def test_what_has_nothing_left_to_do_is_not_tried() -> None:
    plan = Plan(parts={"resident": {}})
    tried, not_tried = propose([FINDING], [RESIDENT, offer("batched")], FLOOR, plan)
    assert tried == []
    assert only(not_tried).why == "resident leaves it nothing to do"


def test_what_leaves_a_part_nothing_to_do_takes_its_place() -> None:
    plan = Plan(parts={"batched": {}, "fused": {}})
    (candidate,), _ = propose([FINDING], [RESIDENT, offer("batched")], FLOOR, plan)
    assert candidate.replaces == ("batched",)
    assert candidate.plan_on(plan) == Plan(parts={"fused": {}, "resident": {}})


def test_what_the_plan_has_is_not_tried_again_but_its_other_settings_are() -> None:
    workers = offer("loader", parts=({"workers": 2}, {"workers": 1}))
    plan = Plan(parts={"loader": {"workers": 2}})
    (candidate,), not_tried = propose([FINDING], [workers], FLOOR, plan)
    assert candidate.part == {"workers": 1}
    assert candidate.plan_on(plan) == Plan(parts={"loader": {"workers": 1}})
    assert not_tried == []


GRAPH = offer("graph", rung=Rung.BITWISE, brings=("state", "fused", "gone"))
STATE = offer("state", "other", rung=Rung.ROUNDING, parts=({"kept": True}, {}))
GONE = offer("gone", "other", parts=(), refusal="no")


def test_what_a_change_brings_takes_the_place_of_what_it_leaves_nothing_to_do() -> None:
    resident = offer("loader", "other", instead_of=("workers", "pinned"))
    graph = offer("graph", brings=("loader",))
    plan = Plan(parts={"workers": {}, "fused": {}})
    (candidate,), _ = propose([FINDING], [graph, resident], FLOOR, plan)
    assert candidate.plan_on(plan).parts.keys() == {"loader", "fused", "graph"}
    assert candidate.words() == "graph with loader"


def test_a_change_takes_along_what_it_could_not_work_without() -> None:
    plan = Plan(parts={"fused": {"kind": "mine"}})
    (candidate,), _ = propose([FINDING], [GRAPH, STATE, GONE], FLOOR, plan)
    assert candidate.along == {"state": {"kept": True}}
    assert candidate.rung is Rung.ROUNDING, "that of what it brings, where that is deeper"
    assert candidate.plan_on(plan).parts == {
        "state": {"kept": True},
        "fused": {"kind": "mine"},
        "graph": {},
    }


WHY = "graphs within graphs"
CONFLICT = Conflict(beside="graph", settings={"mode": ("max",)}, why=WHY)


@pytest.mark.parametrize(
    ("plan", "tried_parts"),
    [
        (Plan(parts={"graph": {}}), [{"mode": "default"}]),
        (Plan(), [{"mode": "max"}, {"mode": "default"}]),
    ],
)
def test_a_combination_that_is_known_to_be_wrong_is_never_tried(
    plan: Plan, tried_parts: list[RawPart]
) -> None:
    parts: tuple[RawPart, ...] = ({"mode": "max"}, {"mode": "default"})
    compiled = offer("compile", parts=parts, conflicts=(CONFLICT,))
    tried, not_tried = propose([FINDING], [compiled], FLOOR, plan)
    assert [each.part for each in tried] == tried_parts
    if plan.parts:
        assert only(not_tried).why == f"compile beside graph: {WHY}"


def test_a_wrong_combination_is_seen_from_its_other_side_too() -> None:
    plan = Plan(parts={"compile": {"mode": "max"}})
    offers = [offer("graph"), offer("compile", "other", conflicts=(CONFLICT,))]
    tried, not_tried = propose([FINDING], offers, FLOOR, plan)
    assert tried == []
    assert WHY in only(not_tried).why


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
