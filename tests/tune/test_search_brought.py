"""Changes that bring others along, and what is tried where these are the trouble."""

import time
from typing import Any

import pytest
from msgspec.structs import replace

from hasten.records.plan import Plan
from pretended_world import (
    MakeWorld,
    by_parts,
    limited,
    offer,
    rows,
    smaller_by,
)

GRAPH = replace(offer("graph"), brings=("resident", "fused"))
RESIDENT = replace(offer("resident", "other"), changes_data=True)
FUSED = offer("fused", "other")
BROUGHT = by_parts(graph=1.3, fused=1.1, resident=1.5)


def test_a_change_is_tried_with_what_it_brings(world: MakeWorld) -> None:
    search = world(speed=BROUGHT).search(GRAPH, RESIDENT, FUSED)
    assert rows(search) == [("graph", "kept")]
    assert search.plan.parts.keys() == {"resident", "fused", "graph"}


def test_what_it_brought_and_does_not_apply_is_left_out(world: MakeWorld) -> None:
    made = world(speed=BROUGHT, skipped="resident")
    search = made.search(GRAPH, RESIDENT, FUSED)
    assert rows(search) == [("graph", "not_tried"), ("graph", "kept")]
    assert search.plan.parts.keys() == {"fused", "graph"}
    assert "trying graph with fused against slow" in made.told


def test_data_that_it_brought_and_takes_too_much_memory_is_left_out(world: MakeWorld) -> None:
    made = world(speed=BROUGHT, size=smaller_by(resident=-500), aim=limited(400))
    search = made.search(GRAPH, RESIDENT, FUSED)
    assert rows(search) == [("graph", "too_large"), ("graph", "kept")]
    assert search.plan.parts.keys() == {"fused", "graph"}


def test_a_search_that_was_stopped_between_both_goes_on_with_the_lighter_one(
    world: MakeWorld,
) -> None:
    settings = {"speed": BROUGHT, "size": smaller_by(resident=-500), "aim": limited(400)}
    whole = world(**settings).search(GRAPH, RESIDENT, FUSED)
    heavy, light = whole.trials
    stopped = world(**settings)
    search = stopped.search(GRAPH, RESIDENT, FUSED, known={heavy.key(): heavy})
    assert (search.plan, rows(search)) == (whole.plan, rows(whole))
    assert [each.key() for each in stopped.notes] == [light.key()], "the other is noted already"
    ended = world(**settings)
    known = {each.key(): each for each in whole.trials}
    assert ended.search(GRAPH, RESIDENT, FUSED, known=known).plan == whole.plan
    assert ended.notes == []


@pytest.mark.parametrize(
    ("trouble", "outcome"),
    [({"refuted": "fused"}, "refuted"), ({"speed": by_parts(graph=1.3, fused=0.5)}, "not_faster")],
)
def test_a_change_is_tried_without_what_it_brings_where_that_may_be_the_trouble(
    world: MakeWorld, trouble: dict[str, Any], outcome: str
) -> None:
    search = world(**{"speed": BROUGHT, **trouble}).search(replace(GRAPH, brings=("fused",)), FUSED)
    assert rows(search) == [("graph", outcome), ("graph", "kept")]
    assert search.plan.parts.keys() == {"graph"}


def test_what_is_wrong_by_itself_is_not_brought_along(world: MakeWorld) -> None:
    made = world(speed=BROUGHT, refuted="fused")
    search = made.search(replace(FUSED, answers=("slow",)), replace(GRAPH, brings=("fused",)))
    assert rows(search) == [("fused", "refuted"), ("graph", "kept")]
    assert search.plan.parts.keys() == {"graph"}


def test_without_what_it_brought_it_replaces_nothing_in_its_name(world: MakeWorld) -> None:
    resident = replace(RESIDENT, instead_of=("loader",))
    loader = replace(offer("loader"), instead_of=("x", "y"))  # so that it comes first
    made = world(speed=by_parts(graph=1.3, loader=1.4), skipped="resident")
    search = made.search(loader, replace(GRAPH, brings=("resident",)), resident)
    assert search.plan.parts.keys() == {"loader", "graph"}


def test_a_change_that_does_not_apply_itself_is_not_tried_without_what_it_brings(
    world: MakeWorld,
) -> None:
    search = world(speed=BROUGHT, skipped="graph").search(GRAPH, RESIDENT, FUSED)
    assert rows(search) == [("graph", "not_tried")]


def test_what_it_brought_is_known_not_to_pay_though_no_time_is_left_to_try_without_it(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def speed(plan: Plan) -> float:
        clock[0] += 30.0
        return by_parts(graph=1.3, fused=0.5)(plan)

    here = world(speed=speed, seconds_left=61.0)
    search = here.search(replace(GRAPH, brings=("fused",)), FUSED)
    assert rows(search) == [("graph", "not_faster"), ("graph", "out_of_time")]
    assert [each.candidate.along for each in search.trials] == [{"fused": {}}, {}]
    noted = {each.key(): each.outcome for each in here.notes}
    assert list(noted.values()) == ["not_faster", "out_of_time"], "each is a line of its own"
