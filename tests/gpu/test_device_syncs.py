"""Waits for a real device, checked against torch's own word for them."""

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from hasten.measure.sync_watch import SyncWatch
from hasten.measure.syncs import find_syncs
from hasten.measure.whereabouts import OnAccelerator
from hasten.records.plan import NAIVE, Plan
from hasten.records.profile import SyncSite
from hasten.runtime.run import Run
from hasten.step.watch import SYNC
from hasten.task.load import load_factory
from hasten.task.pipeline import Pipeline
from hasten.task.seed import seed_everything
from hasten.task.task import Task
from sync_marks import WAITING, found_in, planted_in
from tasks import waiting

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
STEPS = 4
HIDDEN = (waiting.Doubled, waiting.InHiding, waiting.look_at_weight, waiting.Careful)


def warm(make_task: Callable[[], Task], plan: Plan = NAIVE) -> Run:
    seed_everything(0)
    run = Run(Pipeline.from_task(make_task()), plan)
    source = run.endless()
    run.step(next(source))
    while run.is_warming:
        run.step(next(source))
    return run


def watch(make_task: Callable[[], Task], plan: Plan = NAIVE) -> tuple[SyncSite, ...]:
    run = warm(make_task, plan)
    return find_syncs(run, run.endless(), STEPS)


def lines_by_torch(make_task: Callable[[], Task]) -> set[int]:
    """The lines of the user's that torch's sync debugging stands at, without anything of ours."""
    run = warm(make_task)
    source = run.endless()
    batches = [run.transfer(next(source)) for _ in range(STEPS)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            for batch in batches:
                run.step(batch)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    syncs = [each for each in caught if SYNC in str(each.message)]
    return {each.lineno for each in syncs if Path(each.filename) == WAITING}


def test_torch_tells_of_the_same_lines() -> None:
    found = {site.place.line for site in watch(waiting.planted)}
    by_torch = lines_by_torch(waiting.planted)
    assert by_torch <= found
    # Tensor.__format__, tolist and so on are lines of torch's own, which it names instead.
    assert {line for line, _ in planted_in(waiting.Planted)} >= by_torch


def test_each_kind_is_found_at_its_line_with_its_count() -> None:
    assert found_in(watch(waiting.planted)) == planted_in(waiting.Planted)


def test_the_rules_for_a_machine_without_cuda_agree_with_torch() -> None:
    run = warm(waiting.planted)
    source = run.endless()
    by_rule = SyncWatch(OnAccelerator(), torch_tells=False)
    for _ in range(STEPS):
        batch = run.transfer(next(source))
        with by_rule.watching():
            run.step(batch)
    assert found_in(by_rule.sites(STEPS)) == found_in(watch(waiting.planted))


def test_hooks_functions_checkpoints_and_torch_itself_are_seen_through() -> None:
    assert found_in(watch(waiting.in_hiding)) == planted_in(*HIDDEN)


def test_a_clean_task_waits_nowhere() -> None:
    assert watch(waiting.clean) == ()


@pytest.mark.parametrize("name", ["bloom", "lensing", "microbiome", "gpt"])
def test_the_gallery_waits_nowhere(name: str) -> None:
    assert watch(load_factory(f"gallery:{name}")) == ()


@pytest.mark.parametrize(("size", "copies"), [("small", 2), ("small-gru", 1)])
def test_the_battery_waits_for_the_copies_of_its_state_alone(size: str, copies: int) -> None:
    """Each tensor of zeros is one; the technique against them leaves none."""
    make_task = load_factory(f"gallery:battery@{size}")
    (site,) = watch(make_task)
    assert (site.kind, site.per_step) == ("copy", copies)
    assert watch(make_task, Plan(parts={"recurrent_state": {}})) == ()


def test_the_battery_without_its_state_is_one_graph() -> None:
    plan = Plan(parts={"resident_data": {}, "recurrent_state": {}, "whole_step_graph": {}})
    run = warm(load_factory("gallery:battery"), plan)
    assert [each.outcome for each in run.applied] == ["done"] * 3


def test_a_step_that_is_one_graph_waits_nowhere() -> None:
    plan = Plan(parts={"whole_step_graph": {}})
    run = warm(waiting.clean, plan)
    assert [each.outcome for each in run.applied] == ["done"]
    assert find_syncs(run, run.endless(), STEPS) == ()
    assert [each.outcome for each in run.applied] == ["done"]


def test_the_wait_is_what_is_timed() -> None:
    """The host has nothing to do but to wait until the device is through with its work."""

    class Busy(nn.Linear):
        def forward(self, rows: Tensor) -> Tensor:
            output = super().forward(rows)
            torch.cuda._sleep(200_000_000)
            output.sum().item()
            return output

    (site,) = watch(lambda: waiting._task(Busy(waiting.WIDTH, waiting.CLASSES)))
    assert site.code == "output.sum().item()"
    assert site.cost_s is not None
    assert site.cost_s > 0.01  # 200 million cycles are 50 ms and more at any clock it has


def test_a_wait_in_a_thread_of_the_users_is_seen() -> None:
    assert found_in(watch(waiting.in_a_thread)) == planted_in(waiting.InAThread)


def test_a_wait_within_a_backward_pass_is_counted_without_a_cost() -> None:
    """The gradient of rows that a mask chose is scattered back by the mask."""

    class Chosen(nn.Linear):
        def forward(self, rows: Tensor) -> Tensor:
            output = super().forward(rows)
            chosen = output[output > -1e9]
            return chosen.view_as(output)

    sites = watch(lambda: waiting._task(Chosen(waiting.WIDTH, waiting.CLASSES)))
    (within,) = [site for site in sites if "backward" in site.code]
    assert within.place.path.endswith("hasten/step/eager.py")
    assert within.kind == "other"
    assert within.cost_s is None
    assert within.per_step >= 1


def test_losses_are_the_same_to_the_bit_and_nothing_is_left_behind() -> None:
    ends = []
    for watched in (True, False):
        run = warm(waiting.planted)
        source = run.endless()
        if watched:
            find_syncs(run, source, STEPS)
        else:
            for _ in range(STEPS):
                run.step(next(source))
        ends.append(run.step(next(source)))
    assert torch.equal(*ends)
    assert torch.cuda.get_sync_debug_mode() == 0
