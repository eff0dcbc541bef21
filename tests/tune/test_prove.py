"""Planted techniques, in real worker processes: the wrong ones are refuted, the right ones hold."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hasten.errors import HastenError
from hasten.measure.lab import Lab
from hasten.measure.messages import (
    BaselineTraced,
    CandidateTraced,
    DataDigested,
    Failed,
    Trained,
)
from hasten.measure.worker import WorkerFailure
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.verdict import Check, NumericsClaim
from hasten.tune import prove as proving
from hasten.tune.checks import (
    check_bitwise,
    check_data_digests,
    check_resuming,
    check_start,
    stops_to_prove,
)
from hasten.tune.prove import Prover
from quick import fork_all
from specimens import TRAITS

PLANTED = Path(__file__).parents[1] / "tasks" / "planted.py"
ProveOn = Callable[[str, str, Rung], NumericsClaim]


@pytest.fixture(autouse=True)
def _forked(monkeypatch: pytest.MonkeyPatch) -> None:
    fork_all(monkeypatch.setattr)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(f"{PLANTED}:small", seed=3) as lab:
        yield lab


@pytest.fixture(scope="module")
def prover(lab: Lab) -> Prover:
    return Prover(lab, lab.describe().traits, seed=3)


def _prove(prover: Prover, technique: str, rung: Rung) -> NumericsClaim:
    return prover.prove(Plan(parts={technique: {}}), rung)


@pytest.mark.parametrize(
    ("technique", "rung", "check"),
    [
        ("scaled_gradient", Rung.ROUNDING, "rounding"),
        ("frozen_parameter", Rung.ROUNDING, "rounding"),
        ("wrong_gradient_equal_loss", Rung.ROUNDING, "rounding"),
        ("wrong_loss_equal_gradient", Rung.ROUNDING, "rounding"),
        ("wrong_from_the_second_batch", Rung.ROUNDING, "rounding"),
        ("skips_updates", Rung.ROUNDING, "rounding"),
        ("draws_random", Rung.BITWISE, "bitwise"),
        ("moved_start", Rung.ROUNDING, "start"),
        ("other_order", Rung.BITWISE, "data"),
    ],
)
def test_a_wrong_technique_is_refuted(
    prover: Prover, technique: str, rung: Rung, check: str
) -> None:
    claim = _prove(prover, technique, rung)
    assert claim.verdict == "refuted"
    assert claim.checks[-1].name == check, claim


@pytest.mark.parametrize(
    ("technique", "rung"),
    [
        ("harmless", Rung.BITWISE),
        ("batched_loader", Rung.BITWISE),
        ("fused_optimizer", Rung.ROUNDING),
    ],
)
def test_a_right_technique_is_proven(prover: Prover, technique: str, rung: Rung) -> None:
    claim = _prove(prover, technique, rung)
    assert claim.verdict == "proven", claim
    assert [check.name for check in claim.checks] == ["start", "data", rung.value]


def test_what_a_process_that_is_timed_begins_with_is_held_to_the_naive_start(lab: Lab) -> None:
    """The digests that a trial takes of it are those that a proof would take."""
    plan, described = Plan(parts={"fused_optimizer": {}}), lab.describe()
    prover = Prover(lab, described.traits, seed=3, offers=described.offers)
    (arm,) = lab.arms(plan, anew=False, digest=True)
    arm.worker.close()
    assert arm.state is not None
    claim = prover.prove(plan, Rung.ROUNDING, glance=False, state=arm.state)
    assert [(each.name, each.verdict) for each in claim.checks] == [
        ("start", "proven"),
        ("rounding", "proven"),
    ]
    moved = {**arm.state, min(arm.state): "of other bits"}
    (wrong,) = prover.prove(plan, Rung.ROUNDING, glance=False, state=moved).checks
    assert (wrong.name, wrong.verdict) == ("start", "refuted")


@pytest.mark.parametrize(("deaths", "verdict"), [(1, "proven"), (2, "not_proven")])
def test_a_process_that_dies_as_it_draws_or_resumes_is_begun_once_more(
    prover: Prover, monkeypatch: pytest.MonkeyPatch, deaths: int, verdict: str
) -> None:
    left: list[Failed] = []

    def dying(real: Any) -> Any:
        def call(*given: Any, **settings: Any) -> Any:
            if left:
                raise WorkerFailure(left.pop())
            return real(*given, **settings)

        return call

    drawn = Check(name="randomness", verdict="proven", why="equal")
    monkeypatch.setattr(Prover, "_check_randomness", dying(lambda *_: drawn))
    monkeypatch.setattr(Prover, "_train", dying(Prover._train))
    monkeypatch.setattr(prover, "_draws", True)
    left[:] = [Failed(kind="crashed", what="It ended.")] * deaths
    claim = _prove(prover, "fused_optimizer", Rung.ROUNDING)
    assert claim.verdict == verdict
    assert (claim.checks[-1] == drawn) == (deaths == 1)
    left[:] = [Failed(kind="crashed", what="It ended.")] * deaths
    assert prover.prove_resuming(NAIVE).verdict == verdict


@pytest.mark.parametrize(
    ("kind", "deaths", "runs", "verdict"),
    [
        ("crashed", 1, 2, "proven"),
        ("crashed", 2, 2, "not_proven"),
        ("hung", 1, 1, "not_proven"),
        ("raised", 1, 1, "not_proven"),
    ],
)
def test_a_proof_in_which_a_process_dies_is_begun_once_more(
    monkeypatch: pytest.MonkeyPatch, kind: Any, deaths: int, runs: int, verdict: str
) -> None:
    """Of which the naive process may be the one; and another failure comes again."""
    closed: list[str] = []

    def checks(*_: object) -> Iterator[Check]:
        yield Check(name="start", verdict="proven", why="equal")
        if len(begun) <= deaths:
            raise WorkerFailure(Failed(kind=kind, what="It ended."))
        yield Check(name="bitwise", verdict="proven", why="equal")

    begun: list[object] = []

    def worker() -> object:
        begun.append(SimpleNamespace(close=lambda: closed.append("closed")))
        return begun[-1]

    nothing: Any = SimpleNamespace(worker=worker)
    monkeypatch.setattr(Prover, "_checks", checks)
    claim = Prover(nothing, TRAITS, seed=3).prove(NAIVE, Rung.BITWISE)
    assert (claim.verdict, len(begun), len(closed)) == (verdict, runs, runs)
    assert [each.name for each in claim.checks] == ["start", "bitwise"]
    assert claim.checks[-1].why == ("equal" if verdict == "proven" else "It ended.")


def test_a_task_that_is_another_one_each_time_is_an_error_and_refutes_nothing() -> None:
    with Lab(f"{PLANTED}:seeded_from_the_clock", seed=3) as lab:
        restless = Prover(lab, lab.describe().traits, seed=3)
        with pytest.raises(HastenError, match="another training each time") as caught:
            _prove(restless, "fused_optimizer", Rung.ROUNDING)
    assert "0.bias differs before the first step" in caught.value.what
    assert "not from the clock" in caught.value.fix


def test_a_rounding_technique_that_claims_bitwise_is_refuted(prover: Prover) -> None:
    claim = _prove(prover, "fused_optimizer", Rung.BITWISE)
    assert claim.verdict == "refuted"


@pytest.fixture(scope="module")
def prove_on() -> Iterator[ProveOn]:
    """With one lab a task."""
    provers: dict[str, Prover] = {}
    with ExitStack() as stack:

        def prove(task: str, technique: str, rung: Rung) -> NumericsClaim:
            if task not in provers:
                lab = stack.enter_context(Lab(f"{PLANTED}:{task}", seed=3))
                provers[task] = Prover(lab, lab.describe().traits, seed=3)
            return _prove(provers[task], technique, rung)

        yield prove


@pytest.mark.parametrize(
    ("task", "technique", "rung", "check"),
    [
        ("with_dropout", "no_dropout", Rung.ROUNDING, "start"),
        ("with_dropout", "hidden_no_dropout", Rung.BITWISE, "bitwise"),
        ("with_batchnorm", "other_statistics", Rung.ROUNDING, "rounding"),
        ("with_batchnorm", "other_statistics", Rung.BITWISE, "bitwise"),
        ("in_fp64", "narrow_gradient", Rung.ROUNDING, "rounding"),
    ],
)
def test_what_no_gradient_of_fp32_shows_is_refuted_too(
    prove_on: ProveOn, task: str, technique: str, rung: Rung, check: str
) -> None:
    claim = prove_on(task, technique, rung)
    assert (claim.verdict, claim.checks[-1].name) == ("refuted", check), claim


@pytest.mark.parametrize(
    ("task", "technique", "rung"),
    [
        ("with_dropout", "batched_loader", Rung.BITWISE),
        ("with_dropout", "fused_optimizer", Rung.ROUNDING),
        ("with_batchnorm", "fused_optimizer", Rung.ROUNDING),
        ("in_fp64", "fused_optimizer", Rung.ROUNDING),
        ("data_of_the_module", "harmless", Rung.BITWISE),
    ],
)
def test_a_right_technique_is_proven_on_other_tasks(
    prove_on: ProveOn, task: str, technique: str, rung: Rung
) -> None:
    assert prove_on(task, technique, rung).verdict == "proven"


def test_a_technique_that_is_not_in_the_proof_is_not_proven(prover: Prover) -> None:
    claim = _prove(prover, "not_in_the_proof", Rung.ROUNDING)
    assert claim.verdict == "not_proven"
    assert "not_in_the_proof: skipped (kernels are deterministic)" in claim.why()


def test_a_training_that_differs_from_itself_proves_nothing(prove_on: ProveOn) -> None:
    for technique, rung in (("scaled_gradient", Rung.ROUNDING), ("harmless", Rung.BITWISE)):
        claim = prove_on("counting", technique, rung)
        assert claim.verdict == "not_proven", claim
        assert "itself" in claim.why()


def test_a_worker_that_fails_proves_nothing(lab: Lab) -> None:
    prover = Prover(lab, lab.describe().traits, seed=3)
    claim = prover.prove(Plan(parts={"no_such": {}}), Rung.BITWISE)
    assert claim.verdict == "not_proven"
    assert "no_such" in claim.why()


def _traced(
    naive_end: dict[str, str], plan_end: dict[str, str], *, repeats: bool = True
) -> tuple[BaselineTraced, CandidateTraced]:
    naive = BaselineTraced(
        losses=(1.0,),
        schedule=((0.1,),),
        loss_sensitivity=(0.0,),
        quantities={},
        epsilon=1e-5,
        repeats=repeats,
        end=naive_end,
        steps=(1,),
        epoch=1,
    )
    plan = CandidateTraced(
        losses=(1.0,),
        schedule=((0.1,),),
        quantities={},
        missing=(),
        first_unequal="",
        end=plan_end,
        epoch=1,
        did_not_run=(),
    )
    return naive, plan


def test_a_baseline_that_does_not_repeat_itself_supports_no_bitwise_claim() -> None:
    assert check_bitwise(*_traced({}, {}, repeats=False)).verdict == "not_proven"


@pytest.mark.parametrize(
    ("naive", "plan"),
    [
        ({"weight": "a"}, {"weight": "b"}),
        ({"weight": "a", "extra": "b"}, {"weight": "a"}),
        ({"weight": "a"}, {"weight": "a", "extra": "b"}),
    ],
)
def test_a_state_after_the_steps_is_the_same_on_both_sides(
    naive: dict[str, str], plan: dict[str, str]
) -> None:
    check = check_bitwise(*_traced(naive, plan))
    assert check.verdict == "refuted"
    assert check.why.endswith(" differs after the steps")
    assert check_bitwise(*_traced(naive, naive)).verdict == "proven"


def test_a_state_that_only_one_side_has_is_refuted() -> None:
    assert check_start({"weight": "a"}, {"weight": "a", "extra": "b"}).verdict == "refuted"


def _digested(*batches: str, after: str = "s", complete: bool = True) -> DataDigested:
    return DataDigested(batches=batches, after=after, complete=complete)


@pytest.mark.parametrize(
    ("plan", "verdict"),
    [
        (_digested("a", "b"), "proven"),
        (_digested("b", "a"), "refuted"),
        (_digested("a"), "refuted"),
        (_digested("a", "b", after="t"), "refuted"),
        (_digested("a", "b", complete=False), "not_proven"),
    ],
)
def test_data_must_be_equal_complete_and_draw_the_same_randomness(
    plan: DataDigested, verdict: str
) -> None:
    assert check_data_digests(_digested("a", "b"), plan).verdict == verdict


def test_a_plan_that_leaves_the_loader_alone_is_compared_as_far_as_there_is_time() -> None:
    naive, plan = _digested("a", "b", complete=False), _digested("a", complete=False)
    check = check_data_digests(naive, plan, in_full=False)
    assert check.verdict == "proven"
    assert check.why.startswith("the first 1 batches")
    assert check_data_digests(naive, _digested("c"), in_full=False).verdict == "refuted"
    nothing = _digested(complete=False)
    assert check_data_digests(naive, nothing, in_full=False).verdict == "not_proven"


def test_what_was_forgotten_is_run_again(lab: Lab) -> None:
    prover = Prover(lab, lab.describe().traits, seed=3)
    assert _prove(prover, "harmless", Rung.BITWISE).verdict == "proven"
    before = dict(prover._traces)
    prover.forget()
    assert before
    assert not any(path.exists() for path in before.values())
    assert _prove(prover, "harmless", Rung.BITWISE).verdict == "proven"


def test_only_techniques_that_are_known_to_leave_the_loader_alone_get_a_glance(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proving, "GLANCE_S", 0.0)
    described = lab.describe()
    plan, rung = Plan(parts={"harmless": {}}), Rung.BITWISE
    known = Prover(lab, described.traits, 3, described.offers).prove(plan, rung)
    data = next(each for each in known.checks if each.name == "data")
    assert "2 epochs" not in data.why, "there was no time"
    unknown = Prover(lab, described.traits, 3).prove(plan, rung)
    assert "2 epochs equal" in next(each.why for each in unknown.checks if each.name == "data")


def test_without_a_glance_only_what_may_change_the_data_is_compared(lab: Lab) -> None:
    described = lab.describe()
    prover = Prover(lab, described.traits, 3, described.offers)
    for name, checks in (
        ("harmless", ["start", "bitwise"]),
        ("batched_loader", ["start", "data", "bitwise"]),
    ):
        claim = prover.prove(Plan(parts={name: {}}), Rung.BITWISE, glance=False)
        assert [each.name for each in claim.checks] == checks


def test_a_training_that_is_stopped_goes_on_to_the_bit(prover: Prover) -> None:
    check = prover.prove_resuming(Plan(parts={"harmless": {}, "fused_optimizer": {}}))
    assert check.verdict == "proven", check
    assert check.why == "100 steps with a stop after 5, 6 and 50 equal 100, to the bit"


def test_a_training_with_a_memory_that_no_checkpoint_has_is_refuted() -> None:
    with Lab(f"{PLANTED}:counting", seed=3) as lab:
        check = Prover(lab, lab.describe().traits, seed=3).prove_resuming(NAIVE)
    assert check.verdict == "refuted", check
    assert " is another after 100 steps with a stop after " in check.why


def test_a_restless_training_says_nothing_of_its_checkpoints() -> None:
    one, other, third = (
        Trained(state={"weight": each}, applied=(), batches_per_epoch=None) for each in "abc"
    )
    assert check_resuming([50], one, [third, one], one).verdict == "proven"
    assert check_resuming([50], one, [one, other], one).verdict == "refuted"
    assert check_resuming([50], one, [one, other], third).verdict == "not_proven"


@pytest.mark.parametrize(
    ("batches", "stops"),
    [
        (None, [50]),
        (1, [1, 50]),
        (26, [25, 26, 50]),
        (50, [49, 50]),
        (100, [50, 99]),
        (101, [50]),
    ],
)
def test_a_training_is_stopped_about_the_end_of_an_epoch_too(
    batches: int | None, stops: list[int]
) -> None:
    assert stops_to_prove(batches) == stops


def test_a_claim_is_held_to_one_more_check() -> None:
    claim = NumericsClaim(rung=Rung.BITWISE, verdict="proven", checks=())
    held = Check(name="resume", verdict="proven", why="equal")
    lost = Check(name="resume", verdict="refuted", why="weight is another")
    assert claim.with_check(held).verdict == "proven"
    assert claim.with_check(lost).verdict == "refuted"
    assert claim.with_check(held).with_check(lost).why() == "weight is another"


IN_TF32 = """
import torch
from torch import nn
import hasten

torch.set_float32_matmul_precision("high")

def forward(model, batch):
    assert torch.get_float32_matmul_precision() == "highest", "it is computed in TF32"
    return nn.functional.mse_loss(model(batch[0]), batch[1])

def make_task():
    rows = torch.randn(64, 4), torch.randn(64, 1)
    return hasten.Task(model=nn.Linear(4, 1), data=rows, forward=forward,
                       optimizer=torch.optim.SGD, batch_size=16)
"""


@pytest.mark.parametrize("rung", [Rung.ROUNDING, Rung.BITWISE])
def test_steps_are_traced_in_whole_fp32(tmp_path: Path, rung: Rung) -> None:
    """In TF32 a right layout would differ by thousands of times what fp32 sums may; and one process
    is asked for both kinds of traces, the naive side in others."""
    (tmp_path / "in_tf32.py").write_text(IN_TF32)
    with Lab(f"{tmp_path}/in_tf32.py:make_task", seed=3) as lab:
        found = Prover(lab, TRAITS, seed=3).prove(NAIVE, rung)
    assert found.verdict == "proven", found
