"""The ratchet, with arms that only pretend: what is tried, on what, and how often."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from hasten.errors import HastenError
from hasten.measure.messages import Failed
from hasten.measure.worker import WorkerFailure
from hasten.records.applied import Applied
from hasten.records.finding import Finding
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.trial import Offer, Outcome, Trial
from hasten.records.tuning import FASTER, Aim
from hasten.records.verdict import Check, Comparison, NumericsClaim, Verdict
from hasten.stats.paired import Interval, decide
from hasten.tune import rivals
from hasten.tune import search as searching
from hasten.tune.search import MOST_TRIES, Search
from specimens import make_comparison

FLOOR = 1.02


def finding(code: str, bound: float = 2.0) -> Finding:
    return Finding(code=code, title=code, advice="", place=None, cost_s=0.1, bound=bound)


def offer(technique: str, answers: str = "slow", rung: Rung = Rung.BITWISE) -> Offer:
    return Offer(
        technique=technique,
        rung=rung,
        answers=(answers,),
        parts=({},),
        changes_data=False,
        slow_to_prepare=False,
        refusal=None,
    )


class PretendedArm:
    """Of a plan; it is its own worker."""

    state = None

    def __init__(self, plan: Plan, skipped: str | None) -> None:
        self.plan = plan
        self.worker = self
        applied = Applied(technique=str(skipped), outcome="skipped", why="cannot")
        self.applied = (applied,) if skipped in plan.parts else ()

    def fell_back(self) -> Applied | None:
        return self.applied[0] if self.applied else None

    def read(self) -> None: ...
    def pause(self) -> None: ...
    def close(self) -> None: ...


@dataclass
class World:
    """How fast plans are, and what is found of them."""

    speed: Callable[[Plan], float]
    found: Callable[[Plan], Sequence[Finding]] = lambda plan: [finding("slow")]
    refuted: str | None = None
    skipped: str | None = None
    seconds_left: float = 100.0
    look_s: float = 0.0
    aim: Aim = FASTER
    size: Callable[[Plan], int] = lambda plan: 100
    notes: list[Any] = field(default_factory=list)
    compared: list[tuple[str, str]] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def arms(self, *plans: Plan, **_: object) -> list[PretendedArm]:
        return [PretendedArm(plan, self.skipped) for plan in plans]

    def close_workers(self) -> None: ...

    def peak(self, plan: Plan) -> int:
        return self.size(plan)

    def compare(
        self, a: PretendedArm, b: PretendedArm, *, margin: float, limit_s: float, **_: object
    ) -> Comparison:
        self.compared.append((str(a.plan), str(b.plan)))
        self.limits.append(limit_s)
        made = make_comparison(self.speed(b.plan) / self.speed(a.plan))
        decision = decide(Interval(made.ratio, made.low, made.high), margin)
        return replace(made, margin=margin, decision=decision)

    def prove(self, prover: object, plan: Plan, rungs: object, **_: object) -> NumericsClaim:
        verdict: Verdict = "refuted" if self.refuted in plan.parts else "proven"
        check = Check(name="rounding", verdict=verdict, why=f"{verdict} here")
        return NumericsClaim(rung=Rung.ROUNDING, verdict=verdict, checks=(check,))

    def search(self, *offers: Offer, known: Mapping[str, Trial] | None = None) -> Search:
        made = Search(
            self,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            offers,
            {each.technique: each.rung for each in offers},
            noise_floor=FLOOR,
            deadline=time.monotonic() + self.seconds_left,
            diagnose=self.found,
            note=self.notes.append,
            known=known or {},
            aim=self.aim,
            look_s=self.look_s,
        )
        made.run(self.found(NAIVE), self.told.append)
        return made


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Callable[..., World]:
    def make(**settings: Any) -> World:
        made = World(**settings)
        monkeypatch.setattr(rivals, "compare", made.compare)
        monkeypatch.setattr(searching, "prove_steps", made.prove)
        return made

    return make


MakeWorld = Callable[..., World]


def by_parts(**factors: float) -> Callable[[Plan], float]:
    """Each part makes a plan so many times faster, whatever else is in it."""

    def speed(plan: Plan) -> float:
        product = 1.0
        for name in plan.parts:
            product *= factors.get(name, 1.0)
        return product

    return speed


def rows(search: Search) -> list[tuple[str, str]]:
    return [(each.candidate.technique, each.outcome) for each in search.trials]


def test_each_change_is_tried_on_top_of_what_was_kept(world: MakeWorld) -> None:
    here = world(speed=by_parts(a=1.5, b=2.0))
    search = here.search(offer("a"), offer("b"))
    assert search.plan == Plan(parts={"a": {}, "b": {}})
    assert here.compared == [("naive", "a"), ("a", "a + b")]
    assert search.best() == pytest.approx(3.0)
    assert [each.on for each in search.trials] == [NAIVE, Plan(parts={"a": {}})]


def test_what_is_not_faster_is_not_kept(world: MakeWorld) -> None:
    search = world(speed=by_parts(a=0.9)).search(offer("a"))
    assert (search.plan, rows(search)) == (NAIVE, [("a", "not_faster")])


@pytest.mark.parametrize(
    ("low", "high", "why"),
    [
        (0.516, 91313865.443, "too noisy to tell"),
        (0.0, 14352263.528, "too noisy to tell"),
        (0.9, 1.2, "0.900x to 1.200x: not clear of the noise, 1.0 %"),
    ],
)
def test_noise_is_told_without_figures_that_tell_nothing(low: float, high: float, why: str) -> None:
    noisy = replace(make_comparison(), low=low, high=high, decision="undecided")
    assert searching._not_faster(noisy) == ("no_verdict", why)


def test_what_is_faster_and_another_training_is_not_kept(world: MakeWorld) -> None:
    search = world(speed=by_parts(a=2.0, b=1.5), refuted="a").search(offer("a"), offer("b"))
    assert search.plan == Plan(parts={"b": {}})
    assert rows(search) == [("a", "refuted"), ("b", "kept")]


def test_after_a_gain_it_looks_again_at_what_costs_most(world: MakeWorld) -> None:
    """And what costs nothing any more is not answered."""

    def found(plan: Plan) -> list[Finding]:
        if "loader" in plan.parts:
            return [finding("launches", 3.0), finding("data", 1.001)]
        return [finding("data", 5.0), finding("optimizer", 1.5)]

    here = world(speed=by_parts(loader=2.0, graph=1.5, fused=1.2, workers=1.2), found=found)
    search = here.search(
        offer("loader", "data"),
        offer("workers", "data"),
        offer("fused", "optimizer"),
        offer("graph", "launches"),
    )
    assert rows(search) == [("loader", "kept"), ("workers", "below_noise"), ("graph", "kept")]
    assert here.compared == [("naive", "loader"), ("loader", "loader + graph")]


def test_what_did_not_pay_may_pay_on_another_plan(world: MakeWorld) -> None:
    def speed(plan: Plan) -> float:
        both = {"layout", "half"} <= set(plan.parts)
        return by_parts(layout=0.8, half=1.5)(plan) * (2.0 if both else 1.0)

    search = world(speed=speed).search(offer("layout"), offer("half"))
    assert rows(search) == [("layout", "not_faster"), ("half", "kept"), ("layout", "kept")]


def test_what_had_no_chance_yet_comes_before_what_had_one(world: MakeWorld) -> None:
    here = world(speed=by_parts(a=0.9, b=1.5, c=1.5))
    search = here.search(offer("a"), offer("b"), offer("c"))
    assert rows(search) == [("a", "not_faster"), ("b", "kept"), ("c", "kept"), ("a", "not_faster")]


def test_it_does_not_look_again_without_the_time_to_try_what_it_would_find(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, looks = [0.0], list[Plan]()
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def found(plan: Plan) -> list[Finding]:
        looks.append(plan)
        clock[0] += 40.0
        return [finding("slow")]

    here = world(speed=by_parts(a=1.5, b=1.5, c=1.5), found=found, seconds_left=100.0)
    search = here.search(offer("a"), offer("b"), offer("c"))
    assert rows(search) == [("a", "kept"), ("b", "kept"), ("c", "kept")], "20 s are left for these"
    assert looks == [NAIVE, Plan(parts={"a": {}})]


@pytest.mark.parametrize("count", [4, 8, 16])
def test_trials_grow_with_the_changes_and_no_faster(world: MakeWorld, count: int) -> None:
    names = [f"t{number}" for number in range(count)]
    here = world(speed=by_parts(**dict.fromkeys(names[1::2], 1.5)))
    here.search(*map(offer, names))
    assert len(here.compared) <= MOST_TRIES * count


def test_a_refuted_change_is_not_tried_again(world: MakeWorld) -> None:
    here = world(speed=by_parts(a=2.0, b=1.5, c=1.5), refuted="a")
    search = here.search(offer("a"), offer("b"), offer("c"))
    assert [name for name, _ in rows(search)].count("a") == 1


def test_a_change_that_does_not_apply_is_tried_again_on_another_plan(world: MakeWorld) -> None:
    here = world(speed=by_parts(b=1.5), skipped="a")
    search = here.search(offer("a"), offer("b"))
    assert rows(search) == [("a", "not_tried"), ("b", "kept"), ("a", "not_tried")]
    assert search.trials[0].why == "a: skipped (cannot)"


def test_another_precision_is_kept_until_training_tells(world: MakeWorld) -> None:
    search = world(speed=by_parts(half=1.5)).search(offer("half", rung=Rung.PARITY))
    (trial,) = search.trials
    assert trial.outcome == "kept"
    assert trial.why == "faster; whether it trains as well is proven at the end"


def test_another_precision_has_to_be_worth_the_trainings_that_prove_it(world: MakeWorld) -> None:
    speed = by_parts(half=1.035, loader=1.035)
    search = world(speed=speed).search(offer("half", rung=Rung.PARITY), offer("loader"))
    assert rows(search)[:2] == [("loader", "kept"), ("half", "not_faster")]
    assert search.trials[1].why == "another precision has to gain 5 %"
    comparison = search.trials[1].comparison
    assert comparison is not None
    assert comparison.decision == "faster", "which is told"


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


def test_without_time_the_rest_is_said_to_be_untried(world: MakeWorld) -> None:
    here = world(speed=by_parts(a=2.0), seconds_left=1.0)
    search = here.search(offer("a"), offer("b"))
    assert rows(search) == [("a", "out_of_time"), ("b", "out_of_time")]
    assert here.compared == []


def test_a_trial_is_not_begun_in_less_time_than_any_took(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def speed(plan: Plan) -> float:
        clock[0] += 20.0  # once for each of the two
        return by_parts(a=1.5, b=1.5, c=1.5)(plan)

    search = world(speed=speed, seconds_left=100.0).search(offer("a"), offer("b"), offer("c"))
    assert rows(search) == [("a", "kept"), ("b", "kept"), ("c", "out_of_time")]


def test_what_a_slow_one_took_keeps_no_quick_one_from_its_turn(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def speed(plan: Plan) -> float:
        clock[0] += 30.0 if len(here.compared) == 1 else 2.0  # once for each of the two
        return by_parts(slow=1.5, a=1.5, b=1.5)(plan)

    here = world(speed=speed, seconds_left=70.0)
    slow = replace(offer("slow", "more"), slow_to_prepare=True)
    here.found = lambda plan: [finding("more", 3.0), finding("slow", 1.04)]
    search = here.search(slow, offer("a"), offer("b"))
    assert rows(search) == [("slow", "kept"), ("a", "kept"), ("b", "kept")]


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


def test_each_that_waits_has_its_share_of_the_time_that_is_left(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    here = world(speed=by_parts(), seconds_left=40.0)
    here.search(offer("a"), offer("b"), offer("c"), offer("d"))
    assert here.limits == pytest.approx([10.0, 40 / 3, 20.0, 30.0]), "the last one has enough"


def test_the_first_look_is_foreseen_by_what_the_naive_one_took(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    for look_s, looks in ((1.0, 1), (60.0, 0)):
        here = world(speed=by_parts(a=2.0), seconds_left=50.0, look_s=look_s)
        here.search(offer("a"))
        assert here.told.count("measuring where the time goes now") == looks


def test_what_another_part_left_nothing_to_do_has_had_no_chance(world: MakeWorld) -> None:
    first = replace(offer("first"), instead_of=("late", "x"))
    second = replace(offer("second", rung=Rung.ROUNDING), instead_of=("first",))
    late, last = offer("late", rung=Rung.ROUNDING), offer("last", rung=Rung.ROUNDING)
    here = world(speed=by_parts(first=1.2, second=1.5, late=0.9, last=1.5))
    search = here.search(first, second, late, last)
    assert rows(search) == [
        ("first", "kept"),
        ("late", "not_tried"),
        ("second", "kept"),
        ("late", "not_faster"),
        ("last", "kept"),
        ("late", "not_faster"),
    ]


def test_what_is_slow_to_prepare_has_half_of_what_is_left_and_more_with_more_minutes(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = world(speed=by_parts(a=2.0))
    limits = []

    def arms(plan: Plan, limit_s: float = 0.0, **_: object) -> list[PretendedArm]:
        limits.append(limit_s)
        if "slow" in plan.parts:
            raise WorkerFailure(Failed(kind="hung", what=f"No answer in {limit_s:.0f} s."))
        return [PretendedArm(plan, None)]

    monkeypatch.setattr(here, "arms", arms)
    search = here.search(offer("a"), replace(offer("slow"), slow_to_prepare=True))
    assert rows(search) == [("a", "kept"), ("slow", "out_of_time")]
    assert search.trials[-1].why == (
        "it was not ready in its half of the time that was left; give more --minutes"
    )
    assert 50 in map(round, limits)
    assert limits[1] > here.seconds_left, "what is not may go beyond"


def test_a_change_of_what_is_slow_to_prepare_is_slow_too(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiled model may be compiled anew with it."""
    here = world(
        speed=by_parts(slow=2.0),
        found=lambda plan: [finding("other" if plan.parts else "slow")],
    )

    def arms(plan: Plan, **_: object) -> list[PretendedArm]:
        if "late" in plan.parts:
            raise WorkerFailure(Failed(kind="hung", what="No answer."))
        return [PretendedArm(plan, None)]

    monkeypatch.setattr(here, "arms", arms)
    slow = replace(offer("slow"), slow_to_prepare=True)
    search = here.search(slow, offer("late", "other"))
    assert rows(search) == [("slow", "kept"), ("late", "out_of_time")]


def test_what_an_earlier_search_has_tried_is_not_tried_again(world: MakeWorld) -> None:
    first = world(speed=by_parts(a=1.5, c=2.0))
    stopped = first.search(offer("a"), offer("b")).trials
    again = world(speed=by_parts(a=1.5, c=2.0))
    search = again.search(
        offer("a"), offer("b"), offer("c"), known={each.key(): each for each in stopped}
    )
    assert search.plan == Plan(parts={"a": {}, "c": {}})
    assert again.compared == [("a", "a + c"), ("a + c", "a + c + b")]
    assert [each.candidate.technique for each in again.notes] == ["c", "b"], "the new ones only"


def test_a_plan_that_cannot_be_looked_at_keeps_the_findings_of_before(world: MakeWorld) -> None:
    def found(plan: Plan) -> list[Finding]:
        if plan.parts:
            raise HastenError("The profiler failed.", fix="")
        return [finding("slow")]

    here = world(speed=by_parts(a=1.5, b=1.5), found=found)
    search = here.search(offer("a"), offer("b"))
    assert search.plan == Plan(parts={"a": {}, "b": {}})
    assert any("The profiler failed." in words for words in here.told)


def smaller_by(**bytes_less: int) -> Callable[[Plan], int]:
    return lambda plan: 100 - sum(bytes_less.get(name, 0) for name in plan.parts)


SLOW = by_parts(pieces=0.8, recompute=0.9, fused=1.5)


def test_for_memory_what_is_smaller_is_kept_though_it_is_slower(world: MakeWorld) -> None:
    here = world(speed=SLOW, size=smaller_by(recompute=40, pieces=1), aim=Aim(goal="memory"))
    search = here.search(
        offer("recompute", "memory-peak"), offer("pieces", "memory-peak"), offer("fused")
    )
    assert rows(search) == [("recompute", "kept"), ("pieces", "not_smaller")]
    assert search.peak_bytes == 60
    assert search.trials[1].why == "a peak of 59 B, and 60 B without it"


def test_a_limit_that_naive_is_under_only_keeps_out_what_is_too_large(world: MakeWorld) -> None:
    here = world(speed=by_parts(a=1.5, fused=1.5), size=smaller_by(a=-50), aim=limited(120))
    search = here.search(offer("a"), offer("fused"), offer("recompute", "memory-peak"))
    assert rows(search) == [("a", "too_large"), ("fused", "kept")]
    assert search.trials[0].why == "a peak of 150 B, where 120 B are allowed"


def test_a_limit_that_naive_is_over_is_met_first_and_no_further(world: MakeWorld) -> None:
    here = world(speed=SLOW, size=smaller_by(recompute=40, pieces=20), aim=limited(70))
    search = here.search(
        offer("fused"), offer("recompute", "memory-peak"), offer("pieces", "memory-peak")
    )
    assert rows(search) == [("recompute", "kept"), ("fused", "kept")]
    assert search.plan == Plan(parts={"recompute": {}, "fused": {}})


def limited(allowed: int) -> Aim:
    return Aim(memory_bytes=allowed)


@pytest.mark.parametrize("outcome", ["out_of_time", "below_noise", "not_tried"])
def test_what_an_earlier_search_did_not_run_is_run_now(world: MakeWorld, outcome: Outcome) -> None:
    """Its time was spent, or its noise was higher."""
    here = world(speed=by_parts(a=1.5))
    (ran,) = here.search(offer("a")).trials
    unrun = replace(ran, outcome=outcome, comparison=None, numerics=None)
    again = world(speed=by_parts(a=1.5))
    search = again.search(offer("a"), known={unrun.key(): unrun})
    assert rows(search) == [("a", "kept")]
    assert again.notes == search.trials, "and the journal has it"


def test_a_peak_that_cannot_be_measured_is_an_error_in_words(world: MakeWorld) -> None:
    def fail(plan: Plan) -> int:
        raise WorkerFailure(Failed(kind="crashed", what="The training raised: no."))

    here = world(speed=by_parts(), size=fail, aim=Aim(goal="memory"))
    with pytest.raises(HastenError, match="The training raised: no"):
        here.search(offer("a"))
