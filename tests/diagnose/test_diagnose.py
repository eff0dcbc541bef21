"""From what was measured of a step to findings."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnose.profiles import (
    CEILINGS,
    CPU,
    GPU,
    LSTM,
    MODEL,
    NET,
    TASK,
    bound,
    codes,
    diagnosed,
    launches,
    measured,
    parts,
    phases,
    site,
    work,
)
from hasten.diagnose.diagnose import ANSWERED_BY
from hasten.diagnose.shares import shares_of, without_syncs
from hasten.diagnose.thresholds import (
    DATA_WAIT_SHARE,
    MODEL_SHARE,
    OPTIMIZER_SHARE,
    TRANSFER_SHARE,
)
from hasten.records.finding import Finding, Place
from hasten.records.measurement import Memory, Phases
from hasten.records.traits import ModelTraits
from hasten.techniques import registry


def find(
    *steps: Phases, model_place: Place | None = MODEL, model: ModelTraits = NET
) -> dict[str, Finding]:
    return codes(diagnosed(parts(*steps), model, CPU, model_place))


def test_a_finding_has_its_share_its_cost_and_its_bound() -> None:
    finding = find(phases(data_wait=750, forward=250))["data-wait"]
    assert finding.title == "75 % of a step is spent waiting for the next batch"
    assert finding.cost_s == 0.75
    assert finding.bound == pytest.approx(4.0)
    assert finding.place == TASK
    assert finding.advice


@pytest.mark.parametrize(
    ("code", "phase", "threshold"),
    [
        ("data-wait", "data_wait", DATA_WAIT_SHARE),
        ("transfer-bound", "transfer", TRANSFER_SHARE),
        ("slow-optimizer", "optimizer", OPTIMIZER_SHARE),
        ("eager-model", "forward", MODEL_SHARE),
        ("eager-model", "backward", MODEL_SHARE),
    ],
)
def test_a_cost_is_a_finding_from_its_threshold_on(code: str, phase: str, threshold: float) -> None:
    below, above = 0.99 * threshold, 1.01 * threshold
    assert code not in find(phases(**{phase: below}, host=1 - below))
    assert code in find(phases(**{phase: above}, host=1 - above))


def test_a_share_of_exactly_the_threshold_is_a_finding() -> None:
    assert "data-wait" in find(phases(data_wait=3.0, host=97.0))


def test_forward_and_backward_count_together() -> None:
    finding = find(phases(forward=200, backward=300, host=500))["eager-model"]
    assert finding.cost_s == pytest.approx(0.5)
    assert finding.bound == pytest.approx(2.0)


def test_findings_come_with_the_largest_bound_first() -> None:
    found = find(phases(data_wait=0.28, forward=0.32, backward=0.2, optimizer=0.2))
    assert list(found) == ["eager-model", "data-wait", "slow-optimizer"]
    found = find(phases(data_wait=0.1, forward=0.2, backward=0.1, optimizer=0.6))
    assert list(found) == ["slow-optimizer", "eager-model", "data-wait"]


def test_findings_of_what_binds_the_step_come_before_larger_bounds() -> None:
    """Its launches take most of the time of the model, and a faster kernel would gain nothing."""
    step = parts(
        phases(forward=4.0, backward=5.0, optimizer=1.0),
        launches=launches(per_step=400, device=3.0, step=10.0),
        ceilings=CEILINGS,
    )
    found = diagnosed(step, NET, GPU, MODEL)
    bounds = {each.code: each.bound for each in found.findings}
    assert found.limit == "launch-bound"
    assert found.findings[0].code == "launch-bound"
    assert found.findings[1].code == "eager-model"
    assert bounds["eager-model"] > bounds["launch-bound"]


def test_the_place_of_the_model_is_that_of_the_task_where_it_is_unknown() -> None:
    step = phases(forward=1.0, optimizer=1.0)
    assert find(step)["eager-model"].place == MODEL
    assert find(step)["slow-optimizer"].place == TASK
    assert find(step, model_place=None)["eager-model"].place == TASK


def test_a_step_that_is_all_one_cost_has_a_bound_that_is_large_and_finite() -> None:
    found = find(phases(data_wait=1.0))["data-wait"].bound
    assert 1000 < found < float("inf")


def test_a_step_that_took_no_time_has_no_findings() -> None:
    assert find(phases()) == {}


def test_a_slow_first_epoch_does_not_make_a_finding() -> None:
    usual, hiccup = phases(forward=1.0), phases(forward=1.0, data_wait=50.0)
    assert "data-wait" not in find(hiccup, usual, usual)


def test_the_typical_step_is_the_median_of_each_phase() -> None:
    steps = (phases(forward=1.0, optimizer=9.0), phases(forward=5.0), phases(forward=2.0))
    assert measured(*steps).typical_step() == phases(forward=2.0)


times = st.floats(0, 10)
steps = st.builds(
    phases,
    data_wait=times,
    transfer=times,
    forward=times,
    backward=times,
    optimizer=times,
    host=times,
)
ratios = st.floats(0.5, 50)
looked_at = st.builds(launches, st.floats(0, 1e4), times, times)


@settings(deadline=None)
@given(
    st.lists(steps, min_size=1, max_size=9),
    st.none() | looked_at,
    st.none() | st.just(CEILINGS),
    st.lists(st.builds(bound, st.sampled_from(["loader", "optimizer"]), ratios), max_size=2),
    st.lists(st.builds(site, times), max_size=2),
    st.none() | st.builds(work, st.floats(0, 2), st.floats(0, 2)),
    st.sampled_from([CPU, GPU]),
    st.sampled_from([NET, LSTM]),
)
def test_whatever_was_measured_findings_are_ranked_and_shares_are_shares(  # type: ignore[no-untyped-def]
    measured_steps, looked, ceilings, bounds, syncs, counted, device, model
) -> None:
    given_parts = parts(
        *measured_steps,
        launches=looked,
        ceilings=ceilings,
        bounds=tuple(bounds),
        syncs=tuple(syncs),
        work=counted,
    )
    found = diagnosed(given_parts, model, device)
    own = ANSWERED_BY.get(found.limit, (found.limit,))
    of_the_limit = [finding.code in own for finding in found.findings]
    assert of_the_limit == sorted(of_the_limit, reverse=True)
    others = [finding.bound for finding in found.findings if finding.code not in own]
    assert others == sorted(others, reverse=True)
    assert all(finding.bound >= 1 for finding in found.findings)
    total = given_parts.measurement.typical_step().total_s()
    assert all(0 < finding.cost_s <= max(total, 1e-12) for finding in found.findings)
    shares = shares_of(given_parts, on_device=device is GPU)
    several = [getattr(shares, name) for name in ("loader", "syncs", "launching", "in_python")]
    several += [shares.optimizer, shares.model]
    assert all(-1e-9 <= share <= 1 + 1e-9 for share in several)
    assert sum(several) == pytest.approx(1.0)
    assert found.why


def test_what_products_take_at_best_is_no_part_of_what_compiling_could_gain() -> None:
    step = phases(forward=500, backward=300, optimizer=200)
    found = codes(diagnosed(parts(step, work=work(0.3), ceilings=CEILINGS)))
    assert found["eager-model"].bound == pytest.approx(2.0)
    assert "eager-model" not in codes(diagnosed(parts(step, work=work(0.7), ceilings=CEILINGS)))


def test_what_the_fastest_type_takes_at_best_bounds_a_computing_step() -> None:
    """bf16 is 16 times as fast as fp32 there: of 0.8, at least 0.05 is left."""
    step = phases(forward=600, backward=400)
    launched = launches(10, device=1000, step=1000)
    given = parts(step, work=work(0.8), ceilings=CEILINGS, launches=launched)
    found = codes(diagnosed(given, device=GPU))["compute-bound"]
    assert found.bound == pytest.approx(1 / 0.05)


def test_attention_by_hand_is_a_finding_at_its_line() -> None:
    place = Place(path="net.py", line=40)
    by_hand = msgspec.structs.replace(
        NET, attention=("hand_written",), hand_written_attention=place
    )
    step = phases(forward=0.5, backward=0.4, optimizer=0.1)
    finding = find(step, model=by_hand)["unfused-attention"]
    assert (
        finding.title
        == "90 % of a step is spent in the model outside matrix products, and its attention is "
        "written by hand"
    )
    assert finding.place == place
    assert "scaled_dot_product_attention" in finding.advice
    assert finding.bound == pytest.approx(10.0)
    fused = msgspec.structs.replace(NET, attention=("fused",))
    assert "unfused-attention" not in find(step, model=fused)


def test_what_a_perfect_loader_gives_counts_more_than_the_wait_that_was_seen() -> None:
    step = phases(data_wait=1, transfer=1, forward=98)
    found = codes(diagnosed(parts(step, bounds=(bound("loader", 2.0),))))
    assert found["data-wait"].bound == pytest.approx(1 / (1 - 0.49))
    hidden = phases(data_wait=40, forward=60)
    found = codes(diagnosed(parts(hidden, bounds=(bound("loader", 1.001),))))
    assert "data-wait" not in found


def test_a_bound_below_one_is_nothing_to_gain() -> None:
    found = codes(diagnosed(parts(phases(forward=1.0), bounds=(bound("optimizer", 0.97),))))
    assert "slow-optimizer" not in found


def test_waits_of_the_host_are_a_finding_at_the_line_that_costs_most() -> None:
    step = phases(forward=6, backward=2, optimizer=2)
    given_parts = parts(
        step,
        launches=launches(100, device=4, step=10),
        syncs=(site(1.0, line=8), site(3.0, line=5)),
    )
    finding = codes(diagnosed(given_parts, device=GPU))["sync-bound"]
    assert finding.place == Place(path="loop.py", line=5)
    assert finding.bound == pytest.approx(10 / 6)
    assert "sync-bound" not in codes(diagnosed(given_parts, device=CPU)), "nobody waits there"


@pytest.mark.parametrize(
    ("device_ms", "waited_ms", "ratio"),
    [
        (2.0, 4.0, 10 / 6),  # the host is what is left
        (8.0, 4.0, 10 / 8),  # the device is
        (10.0, 9.0, 1.0),  # it is busy all the time, whoever waits
        (12.0, 1.0, 1.0),  # by another clock
        (0.0, 10.0, 1e10),
    ],
)
def test_without_waits_the_longer_of_host_and_device_is_left(
    device_ms: float, waited_ms: float, ratio: float
) -> None:
    found = without_syncs(0.01, device_ms / 1e3, waited_ms / 1e3)
    assert found.ratio == pytest.approx(ratio)
    assert found.low == 1.0
    assert found.high == found.ratio
    assert found.how.startswith("reckoned")


def test_the_reckoned_bound_stands_beside_the_measured_ones() -> None:
    given_parts = parts(
        phases(forward=10),
        launches=launches(10, device=4, step=10),
        syncs=(site(2.0),),
        bounds=(bound("loader", 1.1),),
    )
    found = diagnosed(given_parts, device=GPU).bounds
    assert [each.without for each in found] == ["loader", "syncs"]


def test_memory_near_its_end_is_a_finding_without_a_gain() -> None:
    step = phases(forward=1.0)
    full = Memory(device_allocated_bytes=70 << 30)
    finding = codes(diagnosed(parts(step, memory=full), device=GPU))["memory-peak"]
    assert (finding.bound, finding.cost_s) == (1.0, 0.0)
    assert finding.title == "88 % of the device's memory is in use at once"
    roomy = Memory(device_allocated_bytes=40 << 30)
    assert "memory-peak" not in codes(diagnosed(parts(step, memory=roomy), device=GPU))


@pytest.mark.parametrize(
    ("kernel_ms", "faults", "share"),
    [(4.0, 2000.0, 0.4), (4.0, 100.0, 0.05), (4.0, 90.0, None), (0.4, 2000.0, None)],
)
def test_memory_that_the_kernel_clears_in_each_step_is_found_on_the_cpu(
    kernel_ms: float, faults: float, share: float | None
) -> None:
    """And no more is put down to it than the faults explain."""
    profiled = parts(phases(forward=6.0, backward=4.0))
    measurement = msgspec.structs.replace(
        profiled.measurement, kernel_s=kernel_ms / 1e3, page_faults=faults
    )
    profiled = msgspec.structs.replace(profiled, measurement=measurement)
    assert "page-faults" not in codes(diagnosed(profiled, device=GPU))
    found = codes(diagnosed(profiled, device=CPU))
    if share is None:
        assert "page-faults" not in found
    else:
        assert found["page-faults"].bound == pytest.approx(1 / (1 - share))
        assert f"on {faults:,.0f} page faults" in found["page-faults"].title


def test_every_code_that_a_bundled_technique_answers_is_one_that_can_be_found() -> None:
    answered = {code for each in registry.all_techniques() for code in each.answers}
    known = {
        "data-wait",
        "transfer-bound",
        "slow-optimizer",
        "sync-bound",
        "launch-bound",
        "host-bound",
        "page-faults",
        "eager-model",
        "unfused-attention",
        "recurrent",
        "compute-bound",
        "slow-precision",
        "memory-bound",
        "memory-peak",
    }
    assert answered - known == {"recurrent-state"}, "which no measurement shows"
