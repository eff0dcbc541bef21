"""The cards of ``hasten bench``: the verdict in words, the figures, and what is not known."""

import io
from typing import Any

import msgspec
import pytest
from rich.console import Console, RenderableType

from hasten.records.applied import Applied
from hasten.records.measurement import Memory
from hasten.records.plan import Plan
from hasten.report.bench import bench_card, gate_card, saved_card
from hasten.report.inference import inference_card
from specimens import BENCH, CONFIRMATION, GATE, INFERENCE, SAVED, SPEED

replace = msgspec.structs.replace


def show(card: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=160, highlight=False)
    console.print(card)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def bench(**fields: Any) -> str:
    return show(bench_card(replace(BENCH, **fields)))


FIGURE = "1.500x (99 % interval 1.400x to 1.600x)"


@pytest.mark.parametrize(
    ("outcome", "headline"),
    [
        ("faster", f"FASTER  basic is faster than naive: {FIGURE}, beyond the noise of 1.020x"),
        ("slower", f"SLOWER  basic is slower than naive: {FIGURE}, beyond the noise of 1.020x"),
        ("same", f"SAME  basic is as fast as naive: {FIGURE}"),
        (
            "undecided",
            f"NO VERDICT  basic against naive: {FIGURE}, not clear of the noise of 1.020x;"
            " try a quieter machine",
        ),
    ],
)
def test_a_bench_says_its_verdict_in_words(outcome: str, headline: str) -> None:
    first, *more = bench(outcome=outcome).splitlines()
    assert first == headline
    assert "Only speed was compared" in more[-1]


def test_a_bench_shows_speed_memory_and_warm_up_of_both_arms() -> None:
    rows = [line.split() for line in bench().splitlines()]
    assert ["naive", "basic"] in rows
    assert ["rows/s", "10,000", "15,000"] in rows
    memory = "peak memory 300 MiB of the process 200 MiB of the process 0.67x"
    assert memory.split() in rows
    # 90,000 rows are 1,406 steps of 64, and 9 s at 10,000 rows a second.
    paid = "warm-up 500.0 ms 4 s paid back after 1,406 steps (9 s of training)"
    assert paid.split() in rows


def test_memory_of_a_device_is_compared_with_that_of_a_device() -> None:
    a = Memory(host_bytes=1, device_allocated_bytes=4 << 30)
    b = Memory(host_bytes=9, device_allocated_bytes=3 << 30)
    text = bench(confirmation=replace(CONFIRMATION, a_memory=a, b_memory=b))
    assert "4.0 GiB on the device   3.0 GiB on the device   0.75x" in text


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"batch_size": None}, "paid back after 90,000 rows (9 s of training)"),
        ({"outcome": "undecided"}, "not paid back"),
        ({"speed": replace(SPEED, break_even_rows=None)}, "not paid back"),
        ({"speed": replace(SPEED, warmup_extra_s=-1.0)}, "no longer than before"),
    ],
)
def test_the_warm_up_is_paid_back_only_by_a_gain_that_is_shown(
    fields: dict[str, Any], words: str
) -> None:
    assert words in bench(**fields)


def test_a_bench_says_what_a_level_was() -> None:
    assert "  basic is compile" in bench(plan_b=Plan(parts={"compile": {}}))
    assert "basic is" not in bench(outcome="undecided")


def test_a_bench_without_a_claim_says_why() -> None:
    failed = replace(CONFIRMATION, failure="a worker died")
    text = bench(outcome="undecided", speed=None, confirmation=failed)
    assert text.strip() == "NO VERDICT  basic against naive: a worker died"


def test_a_bench_of_a_technique_that_did_not_run_says_which() -> None:
    lost = Applied(technique="compile", outcome="fell_back", why="it could not compile")
    confirmation = replace(CONFIRMATION, applied=(*CONFIRMATION.applied, lost))
    text = bench(outcome="undecided", speed=None, confirmation=confirmation)
    assert "basic against naive: compile: fell back (it could not compile)" in text


def test_what_was_saved_says_what_to_do_with_it() -> None:
    first, second = show(saved_card(SAVED, "bench.json")).splitlines()
    assert first.startswith("SAVED  naive makes 1.98x to 2.02x the rows a second of the reference")
    assert second == "  Later: hasten bench train.py:make_task --against bench.json"


@pytest.mark.parametrize(
    ("decision", "word", "judged"),
    [
        ("slower", "SLOWER", "A regression: slower by more than the 3 % that are allowed."),
        ("faster", "FASTER", "Faster by more than 3 %: save anew, so that it stays so."),
        ("same", "SAME", "No regression: slower by less than 3 %, if at all."),
        ("undecided", "NO VERDICT", "too noisy to tell"),
    ],
)
def test_a_gate_says_how_much_and_what_it_means(decision: str, word: str, judged: str) -> None:
    change = replace(GATE.change, decision=decision)
    first, second, third, fourth = show(gate_card(replace(GATE, change=change))).splitlines()
    took = "naive takes 1.100 times as long as when it was saved"
    assert first == f"{word}  {took} (95 % interval 1.060 to 1.140)"
    assert judged in second
    assert third == "  measured beside the reference workload, in 3 pairs of processes"
    assert fourth == "  peak memory 300 MiB of the process -> 310 MiB of the process"


def test_inference_shows_latency_and_throughput_of_each_size() -> None:
    lines = show(inference_card(INFERENCE)).splitlines()
    assert lines[0].startswith("FASTER  1 row a call: advanced is faster than naive: 1.500x")
    rows = [line.split() for line in lines]
    assert ["latency,", "median", "2.0", "ms", "1.0", "ms"] in rows
    assert ["95th", "percentile", "3.0", "ms", "1.5", "ms"] in rows
    assert ["99th", "percentile", "4.0", "ms", "2.0", "ms"] in rows
    assert ["rows/s", "10,000", "15,000"] in rows
    assert ["warm-up", "500.0", "ms", "4", "s"] in rows
    assert lines[-1] == "  advanced is compile in evaluation"


def test_inference_of_a_task_with_a_forward_of_its_own_says_that_the_loss_is_in_it() -> None:
    assert "The loss is in these times" in show(inference_card(replace(INFERENCE, with_loss=True)))
    assert "loss" not in show(inference_card(INFERENCE))
