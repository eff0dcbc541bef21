"""What a step is bound by, for made-up measurements of each kind."""

import msgspec
import pytest

from diagnose.profiles import (
    CEILINGS,
    CPU,
    GPU,
    LSTM,
    NET,
    bound,
    codes,
    diagnosed,
    launches,
    parts,
    phases,
    site,
    work,
)
from hasten.records.environment import Device
from hasten.records.profile import Diagnosis, ProfileParts

EVEN = phases(data_wait=0, transfer=0.2, forward=4, backward=4, optimizer=1.8)
"""10 ms."""


def on_gpu(**given: object) -> ProfileParts:
    return parts(EVEN, **{"ceilings": CEILINGS, **given})


def test_a_perfect_loader_that_halves_the_step_makes_it_input_bound() -> None:
    found = diagnosed(parts(EVEN, bounds=(bound("loader", 2.0),)))
    assert found.limit == "input-bound"
    assert found.why.startswith("50 % of a step is spent on data")
    assert found.next[0] == codes(found)["data-wait"].advice


def test_without_a_replay_the_exposed_wait_tells() -> None:
    found = diagnosed(parts(phases(data_wait=5, forward=3, backward=2)))
    assert found.limit == "input-bound"


def test_a_device_that_waits_for_small_launches_is_launch_bound() -> None:
    found = diagnosed(on_gpu(launches=launches(400, device=1, step=11)), device=GPU)
    assert found.limit == "launch-bound"
    assert "launching 400 operations" in found.why
    assert codes(found)["launch-bound"].bound == pytest.approx(1 / (1 - 0.88))
    assert found.next[0] == codes(found)["launch-bound"].advice


def test_so_is_one_whose_launching_is_more_than_its_waiting_for_data() -> None:
    given = on_gpu(launches=launches(400, device=1, step=11), bounds=(bound("loader", 1.6),))
    found = diagnosed(given, device=GPU)
    assert found.limit == "launch-bound"
    assert "data-wait" in codes(found)


def test_a_device_that_waits_for_python_is_host_bound() -> None:
    found = diagnosed(on_gpu(launches=launches(20, device=1, step=11)), device=GPU)
    assert found.limit == "host-bound"
    assert {"host-bound"} == {"host-bound", "launch-bound"} & set(codes(found))


def test_a_device_that_waits_while_the_host_reads_results_is_sync_bound() -> None:
    given = on_gpu(launches=launches(400, device=3, step=11), syncs=(site(5.0),))
    found = diagnosed(given, device=GPU)
    assert found.limit == "sync-bound"
    assert found.next[0] == codes(found)["sync-bound"].advice


def test_waiting_for_a_busy_device_binds_nothing() -> None:
    given = on_gpu(launches=launches(400, device=9.8, step=11), syncs=(site(9.0),), work=work(0.5))
    assert diagnosed(given, device=GPU).limit == "compute-bound"


def test_products_near_their_ceiling_are_compute_bound_and_in_a_slow_type() -> None:
    given = on_gpu(launches=launches(400, device=9.5, step=10), work=work(0.6, 0.2))
    found = diagnosed(given, device=GPU)
    assert found.limit == "compute-bound"
    assert "in fp32" in found.why
    assert found.next[0] == codes(found)["slow-precision"].advice
    assert "computing in fp32 what bf16, 16.0 times as fast here, could save" in (
        codes(found)["slow-precision"].title
    )


def test_products_in_the_fastest_type_are_in_no_slow_one() -> None:
    given = on_gpu(launches=launches(400, device=9.5, step=10), work=work(0.6, 0.2, "bf16"))
    found = diagnosed(given, device=GPU)
    assert found.limit == "compute-bound"
    assert "slow-precision" not in codes(found)


def test_a_slow_type_is_a_finding_where_products_are_some_of_the_step_only() -> None:
    given = on_gpu(launches=launches(400, device=9.5, step=10), work=work(0.15, 0.7))
    found = diagnosed(given, device=GPU)
    assert found.limit == "memory-bound"
    assert "slow-precision" in codes(found)
    given = on_gpu(launches=launches(400, device=9.5, step=10), work=work(0.02, 0.7))
    assert "slow-precision" not in codes(diagnosed(given, device=GPU))


def test_operations_that_move_more_than_they_compute_are_memory_bound() -> None:
    given = on_gpu(launches=launches(400, device=9.5, step=10), work=work(0.2, 0.6))
    found = diagnosed(given, device=GPU)
    assert found.limit == "memory-bound"
    assert "memory-bound" in codes(found)


def test_attention_by_hand_is_told_whatever_binds_the_step() -> None:
    by_hand = msgspec.structs.replace(NET, attention=("hand_written",))
    for counted in (work(0.6, 0.1), work(0.1, 0.6)):
        given = on_gpu(launches=launches(400, device=9.5, step=10), work=counted)
        assert {"unfused-attention", "slow-precision"} <= set(codes(diagnosed(given, by_hand, GPU)))


@pytest.mark.parametrize("device", [CPU, GPU])
def test_a_recurrent_model_that_keeps_the_device_busy_is_recurrent(device: Device) -> None:
    given = on_gpu(launches=launches(900, device=7.5, step=10), work=work(0.02, 0.01))
    given = msgspec.structs.replace(
        given, ceilings=msgspec.structs.replace(CEILINGS, launch_s=1e-6)
    )
    found = diagnosed(given, LSTM, device)
    assert found.limit == "recurrent"
    assert "one moment" in found.why
    assert found.next[0] == codes(found)["recurrent"].advice


def test_a_recurrent_model_that_computes_more_than_anything_else_takes_is_recurrent() -> None:
    """As an LSTM of 200 moments does on an H200 beside its loader."""
    given = on_gpu(
        launches=launches(55, device=5.1, step=13),
        work=work(0.02, 0.01),
        bounds=(bound("loader", 1.29), bound("optimizer", 1.15)),
    )
    assert diagnosed(given, LSTM, GPU).limit == "recurrent"


def test_a_bound_that_a_busy_machine_left_vague_gives_way_to_the_phases() -> None:
    vague = msgspec.structs.replace(bound("optimizer", 1.9), low=0.13, high=5.7)
    clear = bound("optimizer", 1.9)
    share = {
        str(each.low): codes(diagnosed(parts(EVEN, bounds=(each,))))["slow-optimizer"].bound
        for each in (vague, clear)
    }
    assert share[str(vague.low)] == pytest.approx(1 / (1 - 0.18))
    assert share[str(clear.low)] == pytest.approx(1.9)


def test_a_recurrent_model_that_leaves_it_idle_is_launch_bound() -> None:
    given = on_gpu(launches=launches(900, device=2.5, step=10), work=work(0.02))
    assert diagnosed(given, LSTM, GPU).limit == "launch-bound"


def test_a_recurrent_model_of_large_products_is_compute_bound() -> None:
    given = on_gpu(launches=launches(900, device=9.5, step=10), work=work(0.6))
    assert diagnosed(given, LSTM, GPU).limit == "compute-bound"


def test_an_update_that_takes_most_is_optimizer_bound() -> None:
    step = phases(forward=2, backward=2, optimizer=6)
    assert diagnosed(parts(step)).limit == "optimizer-bound"
    measured = parts(step, bounds=(bound("optimizer", 2.2),))
    found = diagnosed(measured)
    assert found.limit == "optimizer-bound"
    assert found.why == "55 % of a step is spent on the arithmetic of updating the weights"


def test_an_update_that_is_slow_to_launch_is_launch_bound() -> None:
    step = phases(forward=2, backward=2, optimizer=6)
    given = parts(step, launches=launches(400, device=1, step=11), ceilings=CEILINGS)
    found = diagnosed(given, device=GPU)
    assert found.limit == "launch-bound"
    assert "slow-optimizer" in codes(found)


def test_many_small_operations_on_a_cpu_are_launch_bound_too() -> None:
    ceilings = msgspec.structs.replace(CEILINGS, launch_s=2e-6)
    given = parts(EVEN, launches=launches(3500, device=9.5, step=10), ceilings=ceilings)
    assert diagnosed(given).limit == "launch-bound"
    given = parts(EVEN, launches=launches(350, device=9.5, step=10), ceilings=ceilings)
    assert diagnosed(given).limit == "balanced"


def test_python_between_the_operations_of_a_cpu_is_host_bound() -> None:
    given = parts(EVEN, launches=launches(300, device=3, step=10), ceilings=CEILINGS)
    found = diagnosed(given)
    assert found.limit == "host-bound"
    assert found.why == "68 % of a step is spent in Python that launches nothing"


def _balanced() -> dict[str, Diagnosis]:
    busy = launches(400, device=9.5, step=10)
    mixed = phases(data_wait=2.5, forward=1.3, backward=1.2, optimizer=2.5, host=2.5)
    return {
        "nothing is near its ceiling": diagnosed(
            on_gpu(launches=busy, work=work(0.2, 0.2)), device=GPU
        ),
        "nothing was counted": diagnosed(on_gpu(launches=busy), device=GPU),
        "nothing but phases was measured": diagnosed(parts(EVEN)),
        "no cause is large": diagnosed(parts(mixed)),
    }


@pytest.mark.parametrize("case", _balanced())
def test_a_step_that_nothing_binds_is_balanced(case: str) -> None:
    found = _balanced()[case]
    assert found.limit == "balanced"
    assert found.why


def test_a_balanced_step_may_have_findings_all_the_same() -> None:
    found = diagnosed(parts(EVEN))
    assert found.limit == "balanced"
    assert {"eager-model", "slow-optimizer"} <= set(codes(found))
    assert found.next[0] == codes(found)["eager-model"].advice


def test_a_captured_step_is_judged_by_what_the_device_does() -> None:
    step = phases(data_wait=0.1, graph=9.9)
    given = parts(
        step, launches=launches(60, device=9.5, step=10), ceilings=CEILINGS, work=work(0.5)
    )
    found = diagnosed(given, device=GPU)
    assert found.limit == "compute-bound"
    assert codes(found)["eager-model"].title.startswith(
        "45 % of a step is spent on forward and back"
    )
