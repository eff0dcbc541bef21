"""Every wait at its line, with its count, and none that is not there."""

import inspect
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack

from hasten.measure import messages
from hasten.measure.lab import Lab
from hasten.measure.sync_watch import SyncWatch
from hasten.measure.syncs import find_syncs
from hasten.measure.whereabouts import Supposed
from hasten.records.plan import NAIVE, Plan
from hasten.records.profile import SyncSite
from hasten.runtime.run import Run
from hasten.task.load import load_factory
from hasten.task.pipeline import Pipeline
from hasten.task.seed import random_state, seed_everything
from hasten.task.task import Task
from sync_marks import WAITING, found_in, planted_in, pretend_sync_mode, wait
from tasks import waiting

pytestmark = pytest.mark.skipif(
    torch.accelerator.is_available(), reason="tests/gpu/test_device_syncs.py is for accelerators"
)
STEPS = 4


def watch(make_task: Callable[[], Task], plan: Plan = NAIVE) -> tuple[SyncSite, ...]:
    seed_everything(0)
    run = Run(Pipeline.from_task(make_task()), plan)
    source = run.endless()
    run.step(next(source))
    return find_syncs(run, source, STEPS)


def test_each_kind_is_found_at_its_line_with_its_count() -> None:
    found = found_in(watch(waiting.planted))
    assert found == planted_in(waiting.Planted)
    kinds = {kind for _, kind in found}
    assert kinds == {"item", "bool", "cpu", "numpy", "tolist", "print", "mask", "nonzero", "copy"}


def test_hooks_functions_checkpoints_and_torch_itself_are_seen_through() -> None:
    things = (waiting.Doubled, waiting.InHiding, waiting.look_at_weight, waiting.Careful)
    assert found_in(watch(waiting.in_hiding)) == planted_in(*things)


def test_a_site_has_the_text_of_its_line_and_a_cost() -> None:
    for site in watch(waiting.planted):
        assert site.code == WAITING.read_text().splitlines()[site.place.line - 1].strip()
        assert site.cost_s is not None
        assert 0 < site.cost_s < math.inf


def test_a_clean_task_waits_nowhere() -> None:
    assert watch(waiting.clean) == ()


@pytest.mark.parametrize("name", ["bloom", "battery", "lensing", "microbiome", "gpt"])
def test_the_gallery_waits_nowhere(name: str) -> None:
    assert watch(load_factory(f"gallery:{name}")) == ()


@pytest.mark.parametrize(
    "optimizer",
    [
        torch.optim.SGD,
        torch.optim.Adam,
        torch.optim.Adagrad,
        torch.optim.NAdam,
        torch.optim.RAdam,
        torch.optim.Adamax,
        torch.optim.Rprop,
    ],
)
def test_the_counters_that_an_optimizer_keeps_on_the_host_are_no_waits(
    optimizer: waiting.Optimizers,
) -> None:
    def make() -> Task:
        return waiting._task(nn.Linear(waiting.WIDTH, waiting.CLASSES), optimizer)

    assert watch(make) == ()


def _losses_and_state(make_task: Callable[[], Task], *, watched: bool) -> tuple[list[Tensor], ...]:
    seed_everything(0)
    run = Run(Pipeline.from_task(make_task()))
    source = run.endless()
    run.step(next(source))
    if watched:
        find_syncs(run, source, STEPS)
    else:
        for _ in range(STEPS):
            run.step(next(source))
    after = [run.step(next(source)) for _ in range(2)]
    state = [each for held in run.optimizer.state.values() for each in held.values()]
    return after, [*run.model.parameters(), *run.model.buffers()], state, [random_state()["torch"]]


@pytest.mark.parametrize("make_task", [waiting.planted, waiting.in_hiding, waiting.clean])
def test_the_training_is_the_same_to_the_bit(make_task: Callable[[], Task]) -> None:
    watched = _losses_and_state(make_task, watched=True)
    plain = _losses_and_state(make_task, watched=False)
    for one, other in zip(watched, plain, strict=True):
        assert len(one) == len(other) > 0 or not one
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


class _Raises(nn.Linear):
    broken = False

    def forward(self, rows: Tensor) -> Tensor:
        if self.broken:
            raise ArithmeticError("of the user's own")
        return super().forward(rows)


@pytest.mark.parametrize("in_backward", [False, True])
def test_nothing_is_left_behind_where_a_step_raises(in_backward: bool) -> None:
    def refuse(gradient: Tensor) -> None:
        raise ArithmeticError("of the user's own")

    engine, stance = torch.autograd._engine_run_backward, torch._dynamo.eval_frame._stance
    run = Run(Pipeline.from_task(waiting._task(_Raises(waiting.WIDTH, waiting.CLASSES))))
    source = run.endless()
    run.step(next(source))
    if in_backward:
        run.model.weight.register_hook(refuse)
    else:
        run.model.broken = True
    with pytest.raises(ArithmeticError):
        find_syncs(run, source, 1)
    assert _get_current_function_mode_stack() == []
    assert torch.autograd._engine_run_backward is engine
    assert torch._dynamo.eval_frame._stance == stance
    for parameter in run.model.parameters():
        assert not hasattr(parameter, "__dict__") or not vars(parameter)


def test_what_is_moved_to_the_host_stays_the_same_numbers_with_their_gradient() -> None:
    class Moved(nn.Linear):
        def forward(self, rows: Tensor) -> Tensor:
            return super().forward(rows).cpu().to(rows.device)

    def make() -> Task:
        return waiting._task(Moved(waiting.WIDTH, waiting.CLASSES))

    (there, back) = sorted(watch(make), key=lambda site: site.kind, reverse=True)
    assert (there.kind, back.kind) == ("cpu", "copy")
    assert there.place == back.place
    watched, plain = (_losses_and_state(make, watched=each) for each in (True, False))
    assert all(torch.equal(a, b) for a, b in zip(watched[0], plain[0], strict=True))


def test_a_device_in_a_variable_is_the_one_that_is_trained_on() -> None:
    where = "cpu"  # as scripts choose it, where there is no accelerator

    class Moves(nn.Linear):
        def forward(self, rows: Tensor) -> Tensor:
            return super().forward(rows.to(where)).to(device=where)

    assert watch(lambda: waiting._task(Moves(waiting.WIDTH, waiting.CLASSES))) == ()


def test_code_that_the_user_compiled_is_watched_and_stays_compiled() -> None:
    class Compiled(nn.Linear):
        def forward(self, rows: Tensor) -> Tensor:
            return _stretch(super().forward(rows))

    def traced(output: Tensor) -> Tensor:
        if output.sum() > 1e9:
            raise AssertionError
        return output * 2

    graphs = []

    def backend(module: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
        graphs.append(module)
        return module

    _stretch = torch.compile(traced, backend=backend)
    run = Run(Pipeline.from_task(waiting._task(Compiled(waiting.WIDTH, waiting.CLASSES))))
    source = run.endless()
    run.step(next(source))
    made = len(graphs)
    assert made > 0
    (site,) = find_syncs(run, source, STEPS)
    assert (site.kind, site.per_step, site.code) == ("bool", 1.0, "if output.sum() > 1e9:")
    run.step(next(source))
    assert len(graphs) == made


def test_a_plan_that_compiles_keeps_its_technique() -> None:
    plan = Plan(parts={"compile": {"backend": "aot_eager"}, "fused_optimizer": {}})
    seed_everything(0)
    run = Run(Pipeline.from_task(waiting.clean()), plan)
    source = run.endless()
    run.step(next(source))
    before = [(each.technique, each.outcome) for each in run.applied]
    assert find_syncs(run, source, 2) == ()
    run.step(next(source))
    assert [(each.technique, each.outcome) for each in run.applied] == before


@pytest.mark.parametrize("part", ["resident_data", "batched_loader", "gradient_accumulation"])
def test_plans_that_change_batches_are_watched(part: str) -> None:
    settings = {"steps": 2} if part == "gradient_accumulation" else {}
    found = watch(waiting.in_hiding, Plan(parts={part: settings}))
    place = {line for line, _ in planted_in(waiting.Doubled)}
    assert place <= {site.place.line for site in found}


def test_a_wait_in_a_thread_of_the_users_is_not_seen_without_cuda() -> None:
    assert watch(waiting.in_a_thread) == ()


def test_a_worker_finds_them() -> None:
    with Lab(f"{WAITING}:in_hiding", seed=0) as lab:
        worker = lab.worker()
        worker.ask(lab.start(NAIVE), messages.Started)
        reply = worker.ask(messages.FindSyncs(steps=2), messages.SyncsFound)
    things = (waiting.Doubled, waiting.InHiding, waiting.look_at_weight, waiting.Careful)
    assert found_in(reply.sites) == planted_in(*things)


def test_a_wait_of_an_optimizer_of_torchs_stands_where_the_step_is_asked_for() -> None:
    def make() -> Task:
        return waiting._task(
            nn.Linear(waiting.WIDTH, waiting.CLASSES, bias=False), torch.optim.Adafactor
        )

    (site,) = watch(make)
    assert (site.kind, site.per_step, site.code) == ("item", 2.0, "optimizer.step()")
    assert site.place.path.endswith("hasten/step/eager.py")


def test_where_torch_tells_of_waits_its_word_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_sync_mode(monkeypatch)
    weight = torch.ones(2, requires_grad=True)
    weight.register_hook(lambda gradient: wait())
    watch = SyncWatch(Supposed(), torch_tells=True)
    with watch.watching():
        weight.sum().item()  # of which torch tells nothing
        wait()
        for _ in range(2):
            weight.sum().backward()
    outside, within = sorted(watch.sites(1), key=lambda site: site.per_step)
    assert (outside.per_step, outside.code) == (1, inspect.getsource(wait).splitlines()[-1].strip())
    assert (within.per_step, within.code) == (2, "weight.sum().backward()")
    assert {(site.kind, site.cost_s) for site in (outside, within)} == {("other", None)}
