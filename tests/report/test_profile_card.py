"""The card of a profile: verdict first, parts that add up, and hostile names inert."""

import io

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from cards import HOSTILE, INERT, sections
from hasten.records.finding import Place
from hasten.records.measurement import Phases
from hasten.records.plan import Plan
from hasten.records.profile import Allocation, ProfileReport
from hasten.report.profile import profile_card
from hasten.report.shares import percents
from specimens import ENVIRONMENT, FINDING, PEAK_MEMORY, PROFILE

replace = msgspec.structs.replace

TIME = "Where the time of a step goes: 10.0 ms, 6,400 rows/s"
WAITS = "Where the host waits for the device, in each step"
DEVICE = "What the device does"
MEMORY = "Who holds the memory at its peak: 100 MiB of tensors"
GAIN = "What could be gained at most"


def show(report: ProfileReport, *, width: int = 200, terminal: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, highlight=False)
    console.print(profile_card(report))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_verdict_comes_first_then_what_to_do_then_the_figures() -> None:
    found = sections(show(PROFILE))
    ending = "Took 31 s. --trace FILE keeps a few steps for Perfetto or TensorBoard."
    assert list(found) == [
        "",
        "Next",
        TIME,
        WAITS,
        "What to change in the code",
        DEVICE,
        MEMORY,
        GAIN,
        "Findings",
        "Notes",
        ending,
    ]
    assert found[""] == [
        "LAUNCH-BOUND  train.py:make_task",
        "the device computes 23 % of the time",
    ]
    assert found["Next"] == [
        "1. hasten tune train.py:make_task",
        "2. Capture the whole step in one CUDA graph.",
    ]


def test_a_plan_is_named_beside_the_task() -> None:
    plan = Plan(parts={"compile": {}})
    assert f"train.py:make_task, {plan}" in show(replace(PROFILE, plan=plan))


def test_the_phases_are_shown_with_their_share_and_a_bar() -> None:
    lines = sections(show(PROFILE))[TIME]
    assert [line.split() for line in lines[:6]] == [
        ["data", "wait", "4.0", "ms", "40.0", "%", "#" * 10],
        ["transfer", "50", "us", "0.5", "%"],
        ["forward", "3.0", "ms", "30.0", "%", "#" * 7],
        ["backward", "2.0", "ms", "20.0", "%", "#" * 5],
        ["optimizer", "950", "us", "9.5", "%", "#" * 2],
        ["the", "rest", "0", "us", "0.0", "%"],
    ]


def test_the_time_to_the_first_step_is_told_in_its_parts() -> None:
    measurement = replace(PROFILE.measurement, import_s=2.0, build_s=0.5, first_batch_s=0.01)
    *_, line = sections(show(replace(PROFILE, measurement=measurement)))[TIME]
    parts = "import 2 s, build 500.0 ms, first batch 10.0 ms, first step 100.0 ms"
    assert line == f"until the first was done 3 s: {parts} (10 x a later one)"


def test_a_step_that_is_one_graph_has_a_phase_of_that_name() -> None:
    (step,) = PROFILE.measurement.steps
    assert "one graph" not in show(PROFILE)
    graph = Phases(
        data_wait_s=0.0,
        transfer_s=0.0,
        forward_s=0.0,
        backward_s=0.0,
        optimizer_s=0.0,
        graph_s=step.total_s(),
    )
    measurement = replace(PROFILE.measurement, steps=(graph,))
    assert "one graph  10.0 ms  100.0 %" in show(replace(PROFILE, measurement=measurement))


def test_a_wait_is_shown_with_its_count_cost_place_and_code() -> None:
    assert sections(show(PROFILE))[WAITS] == [
        "1 x item, 2.1 ms  train.py:41",
        "running += loss.item()",
    ]
    (site,) = PROFILE.syncs
    untimed = replace(PROFILE, syncs=(replace(site, cost_s=None, per_step=0.5),))
    assert "0.5 x item, not timed  train.py:41" in show(untimed)


def test_no_wait_is_told() -> None:
    assert sections(show(replace(PROFILE, syncs=())))[WAITS] == ["Nowhere."]


def test_a_cpu_is_told_of_waits_that_a_device_would_have() -> None:
    text = show(replace(PROFILE, environment=ENVIRONMENT))
    assert "Where the host would wait for a device, in each step" in text
    assert "412 operations a step" in text


def test_what_the_device_does_is_told_beside_what_it_could() -> None:
    assert sections(show(PROFILE))[DEVICE] == [
        "asked of it  412 kernels and copies a step",
        "computing    2.3 ms of 10.0 ms, 23 %",
        "slowest      800 us  sgemm_128x64",
        "400 us  vectorized_elementwise_kernel",
        "arithmetic   2.5 GFLOP a step, 250 GFLOP/s in fp32: 0.5 % of the step at full speed",
        "moved        4 GB a step beside it: 10.0 %",
        "at most      fp32 50 TFLOP/s, tf32 350 TFLOP/s, bf16 700 TFLOP/s, memory 4 TB/s",
        "one launch   3 us at least",
    ]


def test_arithmetic_that_was_not_counted_is_not_zero() -> None:
    assert "arithmetic   nothing was counted" in show(replace(PROFILE, work=None))


def test_what_could_not_be_measured_is_not_shown_as_nothing() -> None:
    missing = replace(PROFILE, launches=None, ceilings=None, work=None, memory=None)
    found = sections(show(missing))
    assert found[DEVICE] == ["asked of it  not measured", "arithmetic   nothing was counted"]
    assert found["Who holds the memory at its peak"] == ["Not measured."]


def test_the_holders_of_memory_add_up_and_their_lines_follow() -> None:
    lines = sections(show(PROFILE))[MEMORY]
    assert [line.split()[0] for line in lines[:5]] == [
        "parameters",
        "gradients",
        "optimizer",
        "activations",
        "other",
    ]
    assert sum(float(line.split()[3]) for line in lines[:5]) == pytest.approx(100)
    assert lines[5:] == [
        "the lines that hold most of it:",
        "48 MiB  model.py:24",
        "return self.layers(x)",
        "1.0 MiB  the optimizer's update",
    ]


def test_memory_without_lines_has_no_heading_for_them() -> None:
    assert "the lines that" not in show(replace(PROFILE, memory=replace(PEAK_MEMORY, largest=())))


def test_a_bound_has_its_interval_and_how_it_was_found() -> None:
    assert sections(show(PROFILE))[GAIN] == [
        "a perfect loader  1.31x (1.28 to 1.35): measured with one batch given again and again"
    ]


def test_a_finding_has_its_place_and_its_advice_unless_that_stands_above() -> None:
    (line,) = sections(show(PROFILE))["Findings"]
    title = "data-wait  40 % of a step is spent waiting for the next batch (train.py:12)"
    assert line == f"{title}. Fetch whole batches at once."
    (line,) = sections(show(replace(PROFILE, next=(FINDING.advice,))))["Findings"]
    assert line == title


def test_empty_states_say_so() -> None:
    empty = replace(PROFILE, next=(), bounds=(), findings=(), notes=())
    found = sections(show(empty))
    assert found["Next"] == ["Nothing: no part of a step stands out."]
    assert found[GAIN] == ["Not measured."]
    assert found["Findings"] == ["None."]
    assert "Notes" not in found


def test_a_trace_is_named_with_where_to_open_it() -> None:
    text = show(replace(PROFILE, trace="steps.json"))
    assert "The trace is steps.json; open it at https://ui.perfetto.dev" in text


@pytest.mark.parametrize("width", [40, 80])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    wide = "x" * 300
    (site,) = PROFILE.syncs
    report = replace(
        PROFILE,
        why=wide,
        next=(wide,),
        syncs=(replace(site, code=wide, place=Place(path=wide, line=1)),),
        launches=replace(PROFILE.launches, slowest={wide: 1.0}),
        notes=(wide,),
    )
    assert max(map(len, show(report, width=width).splitlines())) <= width


def hostile() -> ProfileReport:
    (site,) = PROFILE.syncs
    place = Place(path=HOSTILE, line=1)
    lines = (
        Allocation(place=place, code=HOSTILE, held_bytes=2),
        Allocation(place=None, code=HOSTILE, held_bytes=1),
    )
    return replace(
        PROFILE,
        task=HOSTILE,
        plan=Plan(parts={HOSTILE: {}}),
        why=HOSTILE,
        next=(HOSTILE,),
        syncs=(replace(site, place=place, code=HOSTILE),),
        launches=replace(PROFILE.launches, slowest={HOSTILE: 1.0}),
        memory=replace(PEAK_MEMORY, largest=lines),
        findings=(replace(FINDING, code=HOSTILE, title=HOSTILE, advice=HOSTILE, place=place),),
        notes=(HOSTILE,),
        trace=HOSTILE,
    )


def test_hostile_names_are_shown_inert() -> None:
    text = show(hostile(), width=400)
    assert all(line.isprintable() for line in text.split("\n"))
    assert text.count(INERT) >= 14
    assert "🐛" not in text


def test_hostile_names_add_no_escape_on_a_terminal() -> None:
    text = show(hostile(), width=400, terminal=True)
    assert "\x1b[2J" not in text
    assert "\x07" not in text
    assert "\r" not in text


def test_a_terminal_gets_colours_and_a_pipe_does_not() -> None:
    assert "\x1b[" in show(PROFILE, terminal=True)
    assert "\x1b[" not in show(PROFILE)


def test_percents_go_to_the_largest_rests() -> None:
    assert percents([1.0, 1.0, 1.0]) == [33.4, 33.3, 33.3]
    assert percents([0.0, 0.0]) == [0, 0]
    assert percents([0.9996, 0.0004]) == [100, 0]


@settings(deadline=None)
@given(st.lists(st.floats(min_value=0, max_value=1e9), min_size=1, max_size=8))
def test_percents_of_anything_add_up(values: list[float]) -> None:
    found = percents(values)
    assert sum(found) == pytest.approx(100 if sum(values) > 0 else 0)
