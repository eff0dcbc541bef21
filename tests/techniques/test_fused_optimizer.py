"""The fused optimizer: same weights within rounding, the user's objects kept, refusals."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import OneCycleLR, StepLR

from hasten.records.applied import Applied
from hasten.records.plan import Plan
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.traits import read_traits
from hasten.techniques.fused_optimizer import FusedOptimizerPart, FusedOptimizerTechnique
from hasten.techniques.technique import CannotApply
from plain_loop import make_loader, train_plainly
from torch_state import optimizer_bits, optimizer_form

PLAN = Plan(parts={"fused_optimizer": {}})
TECHNIQUE = FusedOptimizerTechnique()
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "Adam": (torch.optim.Adam, {"lr": 0.01}),
    "Adam with all options": (
        torch.optim.Adam,
        {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1, "maximize": True},
    ),
    "AdamW": (torch.optim.AdamW, {"lr": 0.01}),
    "AdamW by foreach": (torch.optim.AdamW, {"lr": 0.01, "foreach": True}),
    "SGD": (torch.optim.SGD, {"lr": 0.1}),
    "SGD with momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "Adagrad": (torch.optim.Adagrad, {"lr": 0.1}),
}
every_kind = pytest.mark.parametrize(("kind", "options"), KINDS.values(), ids=list(KINDS))


def make_model() -> nn.Module:
    """Without BatchNorm: the bias before one has no gradient but noise, which Adam makes large."""
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3))


def make_pipeline(kind: Any, **options: Any) -> Pipeline:
    torch.manual_seed(3)
    model = make_model()
    optimizer = kind(model.parameters(), **options)
    return Pipeline.from_loop(model, make_loader(), optimizer, F.cross_entropy)


def train(run: Run, steps: int) -> None:
    for _, batch in zip(range(steps), run.endless(), strict=False):
        run.step(batch)


def assert_close(one: nn.Module, other: nn.Module) -> None:
    """Within a few roundings of the weights' own size."""
    torch.testing.assert_close(one.state_dict(), other.state_dict(), rtol=2e-5, atol=2e-6)


@every_kind
@pytest.mark.parametrize("before", [0, 3], ids=["from the start", "with state"])
def test_weights_stay_within_rounding_of_the_loop(
    kind: Any, options: dict[str, Any], before: int
) -> None:
    plain, fused = make_pipeline(kind, **options), make_pipeline(kind, **options)
    for pipeline, plan in ((plain, Plan()), (fused, PLAN)):
        torch.manual_seed(4)
        train(Run(pipeline), before)
        run = Run(pipeline, plan)
        train(run, 5)
        assert all(each.outcome == "done" for each in run.applied)
    for group in fused.optimizers[0].param_groups:
        assert (group["fused"], group["foreach"]) == (True, False)  # torch refuses both at once
    assert not torch.equal(next(plain.model.parameters()), next(make_model().parameters()))
    assert_close(fused.model, plain.model)


@every_kind
def test_undone_it_goes_on_as_the_loop(kind: Any, options: dict[str, Any]) -> None:
    plain, fused = make_pipeline(kind, **options), make_pipeline(kind, **options)
    torch.manual_seed(4)
    train(Run(plain), 2)
    train(Run(plain), 3)
    torch.manual_seed(4)
    run = Run(fused, PLAN)
    train(run, 2)
    run.undo()
    assert optimizer_form(fused.optimizers[0]) == optimizer_form(plain.optimizers[0])
    train(run, 3)
    assert_close(fused.model, plain.model)


class MyRMSprop(torch.optim.RMSprop):
    pass


BY_FOREACH = Plan(parts={"fused_optimizer": {"implementation": "foreach"}})


@pytest.mark.parametrize(
    "kind",
    [
        "ASGD",
        "Adadelta",
        "Adafactor",
        "Adagrad",
        "Adam",
        "AdamW",
        "Adamax",
        "NAdam",
        "RAdam",
        "RMSprop",
        "Rprop",
        "SGD",
    ],
)
def test_every_optimizer_of_torch_that_can_goes_by_foreach(kind: str) -> None:
    plain, changed = (make_pipeline(getattr(torch.optim, kind), lr=0.01) for _ in range(2))
    for pipeline, plan in ((plain, Plan()), (changed, BY_FOREACH)):
        torch.manual_seed(4)
        run = Run(pipeline, plan)
        train(run, 5)
    assert [str(each) for each in run.applied] == [f"fused_optimizer: done ({kind} foreach)"]
    assert all(group["foreach"] for group in changed.optimizers[0].param_groups)
    assert_close(changed.model, plain.model)
    run.undo()
    assert optimizer_form(changed.optimizers[0]) == optimizer_form(plain.optimizers[0])


@pytest.mark.parametrize("kind", [MyRMSprop, torch.optim.SparseAdam])
def test_an_optimizer_without_the_flag_or_of_ones_own_does_not_go_by_foreach(kind: Any) -> None:
    (said,) = Run(make_pipeline(kind), BY_FOREACH).applied
    assert (said.outcome, said.why) == (
        "skipped",
        "no optimizer here has a foreach implementation",
    )


def test_the_fused_kernel_is_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    fused_adam = torch._fused_adam_

    def spy(*args: Any, **options: Any) -> None:
        calls.append(len(args[0]))
        fused_adam(*args, **options)

    monkeypatch.setattr(torch, "_fused_adam_", spy)
    pipeline = make_pipeline(torch.optim.Adam)
    train(Run(pipeline), 1)
    assert calls == []
    train(Run(pipeline, PLAN), 2)
    assert calls == [4, 4]


def test_schedulers_keep_their_optimizer() -> None:
    """OneCycle moves the betas too."""
    rates = []
    for plan in (Plan(), PLAN):
        pipeline = make_pipeline(torch.optim.AdamW)
        optimizer = pipeline.optimizers[0]
        pipeline.schedulers = [OneCycleLR(optimizer, max_lr=0.1, total_steps=12)]
        run = Run(pipeline, plan)
        train(run, 4)
        run.undo()
        train(run, 4)
        rates.append([(group["lr"], group["betas"]) for group in optimizer.param_groups])
    assert rates[0] == rates[1]
    assert rates[0][0] != (0.001, (0.9, 0.999))


def test_a_group_that_is_added_later_is_fused_and_undone_too() -> None:
    pipeline = make_pipeline(torch.optim.AdamW, foreach=True)
    optimizer = pipeline.optimizers[0]
    run = Run(pipeline, PLAN)
    optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))]})
    assert [group["fused"] for group in optimizer.param_groups] == [True, True]
    run.undo()
    assert [group["fused"] for group in optimizer.param_groups] == [None, None]
    assert [group["foreach"] for group in optimizer.param_groups] == [True, True]


def test_groups_that_differ_get_back_what_each_had() -> None:
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    optimizer = torch.optim.SGD(
        [
            {"params": first.parameters(), "foreach": True},
            {"params": second.parameters(), "fused": True, "foreach": False},
        ],
        lr=0.1,
    )
    pipeline = Pipeline.from_loop(first, (), optimizer, F.mse_loss)
    effect = TECHNIQUE.apply(pipeline, FusedOptimizerPart())
    effect.undo()
    flags = [(group["fused"], group["foreach"]) for group in optimizer.param_groups]
    assert flags == [(None, True), (True, False)]


def test_it_is_to_a_gradient_scaler_what_a_fused_optimizer_is() -> None:
    made, switched = (
        make_pipeline(torch.optim.SGD, lr=0.1, fused=True),
        make_pipeline(torch.optim.SGD, lr=0.1),
    )
    effect = TECHNIQUE.apply(switched, FusedOptimizerPart())
    assert switched.optimizers[0]._step_supports_amp_scaling
    assert made.optimizers[0]._step_supports_amp_scaling
    effect.undo()
    assert not hasattr(switched.optimizers[0], "_step_supports_amp_scaling")


def test_an_optimizer_that_was_fused_stays_so() -> None:
    pipeline = make_pipeline(torch.optim.SGD, lr=0.1, fused=True)
    before = optimizer_form(pipeline.optimizers[0])
    TECHNIQUE.apply(pipeline, FusedOptimizerPart()).undo()
    assert optimizer_form(pipeline.optimizers[0]) == before


def test_state_that_the_user_loads_is_noticed_where_it_sets_the_loop_back() -> None:
    pipeline = make_pipeline(torch.optim.Adam)
    saved = pipeline.optimizers[0].state_dict()
    run = Run(pipeline, PLAN)
    pipeline.optimizers[0].load_state_dict(saved)
    train(run, 1)
    assert run.applied == [
        Applied(
            technique="fused_optimizer",
            outcome="fell_back",
            why="Adam was set back by other code",
        )
    ]
    assert run.effects == []


@pytest.mark.parametrize("kind", [torch.optim.RMSprop, torch.optim.SparseAdam])
def test_what_torch_cannot_fuse_is_refused_and_left_alone(kind: Any) -> None:
    pipeline = make_pipeline(kind)
    before = optimizer_bits(pipeline.optimizers[0])
    assert TECHNIQUE.unsuited(read_traits(pipeline)) == (
        f"torch has no fused {kind.__name__} for these parameters"
    )
    with pytest.raises(CannotApply, match="no optimizer here has a fused implementation"):
        TECHNIQUE.apply(pipeline, FusedOptimizerPart())
    assert optimizer_bits(pipeline.optimizers[0]) == before


def test_what_is_fused_already_has_nothing_to_gain() -> None:
    reason = TECHNIQUE.unsuited(read_traits(make_pipeline(torch.optim.SGD, lr=0.1, fused=True)))
    assert reason == "SGD is fused already"


def test_of_two_optimizers_the_one_that_can_is_fused() -> None:
    model = make_model()
    first, *others = model.parameters()
    pipeline = make_pipeline(torch.optim.SGD, lr=0.1)
    pipeline.optimizers = [torch.optim.RMSprop([first]), torch.optim.Adam(others)]
    assert TECHNIQUE.unsuited(read_traits(pipeline)) is None
    effect = TECHNIQUE.apply(pipeline, FusedOptimizerPart())
    assert effect.why == "Adam fused"
    assert pipeline.optimizers[1].param_groups[0]["fused"]
    assert "fused" not in pipeline.optimizers[0].param_groups[0]
    effect.undo()


def test_sparse_gradients_fall_back_to_the_loop_with_the_same_weights() -> None:
    """That they are sparse is known only once there is a gradient."""
    weights = []
    for plan in (Plan(), PLAN):
        torch.manual_seed(0)
        model = nn.EmbeddingBag(10, 3, sparse=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run = Run(Pipeline.from_loop(model, (), optimizer, F.mse_loss), plan)
        for step in range(3):
            run.step((torch.tensor([[step, 1], [2, 3]]), torch.ones(2, 3)))
        weights.append(model.weight.detach())
    assert torch.equal(weights[0], weights[1])
    assert [(each.outcome, each.why) for each in run.applied] == [
        ("fell_back", "RuntimeError: `_fused_sgd` does not support sparse gradients")
    ]
    assert optimizer.param_groups[0]["fused"] is None


def test_it_is_fused_in_a_loop_of_the_users_own() -> None:
    plain, fused = (make_pipeline(torch.optim.AdamW, lr=0.01) for _ in range(2))
    torch.manual_seed(7)
    train_plainly(plain.model, plain.loader, plain.optimizers[0], epochs=1)
    TECHNIQUE.apply(fused, FusedOptimizerPart())
    scheduler = StepLR(fused.optimizers[0], 100)
    torch.manual_seed(7)
    train_plainly(fused.model, fused.loader, fused.optimizers[0], epochs=1, each_step=scheduler)
    assert_close(fused.model, plain.model)
