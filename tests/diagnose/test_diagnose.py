"""From the phases of a step to findings."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.diagnose.diagnose import diagnose, typical_step
from hasten.diagnose.thresholds import DATA_WAIT_SHARE, MODEL_SHARE, OPTIMIZER_SHARE
from hasten.records.finding import Finding, Place
from hasten.records.measurement import Measurement, Memory, Phases
from hasten.records.traits import ModelTraits

TASK = Place(path="train.py", line=3)
MODEL = Place(path="model.py", line=7)


def phases(
    data_wait: float = 0.0,
    transfer: float = 0.0,
    forward: float = 0.0,
    backward: float = 0.0,
    optimizer: float = 0.0,
) -> Phases:
    return Phases(
        data_wait_s=data_wait,
        transfer_s=transfer,
        forward_s=forward,
        backward_s=backward,
        optimizer_s=optimizer,
    )


def measured(*steps: Phases) -> Measurement:
    return Measurement(
        steps=steps,
        rows=(64,) * len(steps),
        losses=(0.5,) * len(steps),
        first_step_s=1.0,
        memory=Memory(),
    )


NET = ModelTraits(
    name="Net", parameters=1, parameter_bytes=4, families=("linear",), repeated_blocks=()
)


def find(
    *steps: Phases, model_place: Place | None = MODEL, model: ModelTraits = NET
) -> dict[str, Finding]:
    findings = diagnose(measured(*steps), model, task_place=TASK, model_place=model_place)
    return {finding.code: finding for finding in findings}


def test_a_finding_has_its_share_its_cost_and_its_bound() -> None:
    found = find(phases(data_wait=0.75, transfer=0.25))
    assert list(found) == ["data-wait"]
    finding = found["data-wait"]
    assert finding.title == "75 % of a step is spent waiting for the next batch"
    assert finding.cost_s == 0.75
    assert finding.bound == pytest.approx(4.0)
    assert finding.place == TASK
    assert finding.advice


@pytest.mark.parametrize(
    ("code", "phase", "threshold"),
    [
        ("data-wait", "data_wait", DATA_WAIT_SHARE),
        ("slow-optimizer", "optimizer", OPTIMIZER_SHARE),
        ("eager-model", "forward", MODEL_SHARE),
        ("eager-model", "backward", MODEL_SHARE),
    ],
)
def test_a_cost_is_a_finding_from_its_threshold_on(code: str, phase: str, threshold: float) -> None:
    below, above = 0.99 * threshold, 1.01 * threshold
    assert code not in find(phases(**{phase: below}, transfer=1 - below))
    assert code in find(phases(**{phase: above}, transfer=1 - above))


def test_a_share_of_exactly_the_threshold_is_a_finding() -> None:
    assert "data-wait" in find(phases(data_wait=3.0, transfer=97.0))


def test_forward_and_backward_count_together() -> None:
    finding = find(phases(forward=0.2, backward=0.3, transfer=0.5))["eager-model"]
    assert finding.cost_s == pytest.approx(0.5)
    assert finding.bound == pytest.approx(2.0)


def test_findings_come_with_the_largest_bound_first() -> None:
    found = find(phases(data_wait=0.3, forward=0.3, backward=0.2, optimizer=0.2))
    assert list(found) == ["eager-model", "data-wait", "slow-optimizer"]
    found = find(phases(data_wait=0.1, forward=0.2, backward=0.1, optimizer=0.6))
    assert list(found) == ["slow-optimizer", "eager-model", "data-wait"]


def test_the_place_of_the_model_is_that_of_the_task_where_it_is_unknown() -> None:
    step = phases(forward=1.0, optimizer=1.0)
    assert find(step)["eager-model"].place == MODEL
    assert find(step)["slow-optimizer"].place == TASK
    assert find(step, model_place=None)["eager-model"].place == TASK


def test_a_step_that_is_all_one_cost_has_a_bound_that_is_large_and_finite() -> None:
    bound = find(phases(data_wait=0.001))["data-wait"].bound
    assert 1000 < bound < float("inf")


def test_a_step_that_took_no_time_has_no_findings() -> None:
    assert find(phases()) == {}


def test_a_step_without_anything_that_stands_out_has_no_findings() -> None:
    assert find(phases(transfer=0.9, optimizer=0.03, forward=0.05, data_wait=0.02)) == {}


def test_a_slow_first_epoch_does_not_make_a_finding() -> None:
    usual, hiccup = phases(transfer=1.0), phases(transfer=1.0, data_wait=50.0)
    assert find(hiccup, usual, usual) == {}


def test_the_typical_step_is_the_median_of_each_phase() -> None:
    steps = (phases(forward=1.0, optimizer=9.0), phases(forward=5.0), phases(forward=2.0))
    assert typical_step(measured(*steps)) == phases(forward=2.0)


times = st.floats(0, 10)
steps = st.builds(phases, times, times, times, times, times)


@settings(deadline=None)
@given(st.lists(steps, min_size=1, max_size=9))
def test_findings_are_ranked_and_never_promise_less_than_nothing(
    measured_steps: list[Phases],
) -> None:
    findings = list(find(*measured_steps).values())
    bounds = [finding.bound for finding in findings]
    assert bounds == sorted(bounds, reverse=True)
    assert all(bound >= 1 for bound in bounds)
    total = typical_step(measured(*measured_steps)).total_s()
    assert all(0 < finding.cost_s <= total for finding in findings)


def test_attention_by_hand_is_a_finding_at_its_line() -> None:
    place = Place(path="net.py", line=40)
    by_hand = msgspec.structs.replace(
        NET, attention=("hand_written",), hand_written_attention=place
    )
    finding = find(phases(forward=0.5, backward=0.4, optimizer=0.1), model=by_hand)[
        "unfused-attention"
    ]
    assert (
        finding.title
        == "90 % of a step is spent in the model, and its attention is written by hand"
    )
    assert finding.place == place
    assert "scaled_dot_product_attention" in finding.advice
    assert finding.bound == pytest.approx(10.0)
    fused = msgspec.structs.replace(NET, attention=("fused",))
    assert "unfused-attention" not in find(phases(forward=0.5, backward=0.5), model=fused)
