"""The public optimizers: a loop that the user keeps, a plan, a recipe, and the way back."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import StepLR

from hasten import (
    ModelOptimizer,
    OptimizationLevel,
    PerformanceConfig,
    PerformanceOptimizer,
    TrainingOptimizer,
)
from hasten import Plan as PublicPlan
from hasten.data.loaders.batched import BatchedLoader
from hasten.errors import HastenError
from hasten.host.environment import read_environment
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.recipe import RECIPE_FORMAT, Recipe, RecipeNumerics, RecipeSpeed
from hasten.runtime.run import Run
from hasten.tune.files import recipe_text
from plain_loop import make_loader, make_model, train_plainly
from torch_state import (
    model_bits,
    model_form,
    optimizer_bits,
    optimizer_form,
    random_settings,
    torch_settings,
)

WHOLE = Plan(parts={"batched_loader": {}, "compile": {}, "fused_optimizer": {}})
BASIC = PerformanceConfig(optimization_level=OptimizationLevel.BASIC)


@pytest.fixture(autouse=True)
def _quick_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    slow = torch.compile
    monkeypatch.setattr(torch, "compile", lambda what, **_: slow(what, backend="aot_eager"))
    yield
    torch._dynamo.reset()


@pytest.fixture(autouse=True)
def _plain_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels choose by the machine: here one without bf16 instructions."""
    here = read_environment()
    plain = msgspec.structs.replace(here, device=msgspec.structs.replace(here.device, bf16=False))
    monkeypatch.setattr("hasten.optimizer.read_environment", lambda: plain)


def make_parts() -> tuple[nn.Module, Any, torch.optim.Optimizer]:
    torch.manual_seed(7)
    model = make_model()
    return model, make_loader(), torch.optim.AdamW(model.parameters(), lr=0.01)


def outcome(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[Any]:
    return [model_bits(model)["tensors"], optimizer_bits(optimizer), random_settings()]


def make_recipe(**changes: Any) -> Recipe:
    """As a tuning on this machine would leave one."""
    recipe = Recipe(
        format=RECIPE_FORMAT,
        task="train.py:make_task",
        created="2026-01-01T00:00:00+00:00",
        hasten="0.1.0",
        evidence_sha256="0" * 64,
        plan={"batched_loader": {}},
        speed=RecipeSpeed(verdict="proven", ratio=2.0, low=1.9, high=2.1),
        numerics=RecipeNumerics(verdict="proven", rung=Rung.BITWISE),
        environment=read_environment(),
    )
    return msgspec.structs.replace(recipe, **changes)


def write_recipe(folder: Path, **changes: Any) -> Path:
    path = folder / "recipe.toml"
    path.write_text(recipe_text(make_recipe(**changes)))
    return path


def elsewhere() -> Any:
    return msgspec.structs.replace(read_environment(), cpu="another CPU", cores_allowed=96.0)


def use_config(path: Path) -> PerformanceOptimizer:
    return PerformanceOptimizer(BASIC)


def use_plan(path: Path) -> PerformanceOptimizer:
    return PerformanceOptimizer(PublicPlan(parts={"batched_loader": {}}))


def use_recipe(path: Path) -> PerformanceOptimizer:
    return PerformanceOptimizer.from_recipe(write_recipe(path))


@pytest.mark.parametrize("make", [use_config, use_plan, use_recipe])
def test_a_loop_of_the_user_trains_to_the_same_weights(
    make: Callable[[Path], PerformanceOptimizer], tmp_path: Path
) -> None:
    model, loader, optimizer = make_parts()
    losses = train_plainly(
        model,
        loader,
        optimizer,
        epochs=5,
        clip_norm=0.5,
        each_step=StepLR(optimizer, 6, gamma=0.8),
    )
    expected = outcome(model, optimizer)

    model, loader, optimizer = make_parts()
    run = make(tmp_path).optimize_training_pipeline(
        model,
        loader,
        optimizer,
        F.cross_entropy,
        clip_norm=0.5,
        scheduler=StepLR(optimizer, 6, gamma=0.8),
    )
    assert isinstance(run.pipeline.loader, BatchedLoader)
    found = [float(run.step(batch)) for _ in range(5) for batch in run.dataloader]
    assert found == losses
    assert outcome(model, optimizer) == expected
    assert [each.outcome for each in run.applied] == ["done"]
    run.undo()
    assert run.dataloader is loader


def test_without_a_wish_the_level_is_advanced() -> None:
    model, loader, optimizer = make_parts()
    run = PerformanceOptimizer().optimize_training_pipeline(
        model, loader, optimizer, F.cross_entropy
    )
    assert set(run.plan.parts) == set(WHOLE.parts)
    run.undo()


def test_an_empty_plan_is_a_wish_too() -> None:
    model, loader, optimizer = make_parts()
    run = PerformanceOptimizer(NAIVE).optimize_training_pipeline(
        model, loader, optimizer, F.cross_entropy
    )
    assert (run.plan, run.applied, run.dataloader) == (NAIVE, [], loader)


def test_a_whole_plan_is_applied_to_the_loop_and_undone() -> None:
    model, loader, optimizer = make_parts()
    before = model_bits(model), optimizer_bits(optimizer), torch_settings()
    run = PerformanceOptimizer(WHOLE).optimize_training_pipeline(
        model, loader, optimizer, F.cross_entropy
    )
    assert [each.technique for each in run.applied] == list(WHOLE.parts)
    assert {each.outcome for each in run.applied} == {"done"}
    run.undo()
    assert (model_bits(model), optimizer_bits(optimizer), torch_settings()) == before


# Recipes.


def test_a_recipe_of_this_machine_is_taken(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, plan={"compile": {"mode": "max-autotune"}})
    assert PerformanceOptimizer.from_recipe(path).wish == Plan(
        parts={"compile": {"mode": "max-autotune"}}
    )
    assert (
        PerformanceOptimizer.from_recipe(str(path)).wish
        == make_recipe(plan={"compile": {"mode": "max-autotune"}}).as_plan()
    )


def test_a_recipe_of_another_machine_is_refused_with_the_differences(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, environment=elsewhere())
    here = read_environment()
    with pytest.raises(HastenError) as refusal:
        PerformanceOptimizer.from_recipe(path)
    assert str(path) in refusal.value.what
    assert f"cpu: another CPU, here {here.cpu}" in refusal.value.what
    assert f"cores_allowed: 96, here {here.cores_allowed:g}" in refusal.value.what
    assert "torch" not in refusal.value.what
    assert "hasten prove" in refusal.value.fix


def test_a_recipe_of_another_machine_is_taken_where_that_is_allowed(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, environment=elsewhere())
    allowed = PerformanceOptimizer.from_recipe(path, allow_other_machine=True)
    assert allowed.wish == Plan(parts={"batched_loader": {}})


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (
            {"batched_lodaer": {}},
            "technique 'plan.batched_lodaer' is not known. Did you mean 'plan.batched_loader'?",
        ),
        (
            {"compile": {"mod": "default"}},
            "key 'plan.compile.mod' is not known. Did you mean 'plan.compile.mode'?",
        ),
        (
            {"compile": {"mode": "fastest"}},
            'plan.compile.mode = "fastest" is not known',
        ),
    ],
)
@pytest.mark.parametrize("allowed", [False, True])
def test_a_recipe_with_an_unknown_part_is_refused_with_the_nearest(
    plan: dict[str, Any], message: str, allowed: bool, tmp_path: Path
) -> None:
    path = write_recipe(tmp_path, plan=plan)
    with pytest.raises(HastenError) as refusal:
        PerformanceOptimizer.from_recipe(path, allow_other_machine=allowed)
    assert str(refusal.value).startswith(f"{path}: {message}")


def test_an_unknown_key_of_the_recipe_itself_is_refused_with_the_nearest(tmp_path: Path) -> None:
    path = write_recipe(tmp_path)
    path.write_text(path.read_text().replace("[speed]\n", '[speed]\nverdcit = "proven"\n'))
    with pytest.raises(HastenError, match=r"'speed\.verdcit' is not known\. .* 'speed\.verdict'"):
        PerformanceOptimizer.from_recipe(path)


def test_a_recipe_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HastenError, match="cannot be read"):
        PerformanceOptimizer.from_recipe(tmp_path / "recipe.toml")


# Parts of a plan.


def test_a_model_optimizer_does_its_part_only() -> None:
    model, _, optimizer = make_parts()
    before, untouched = model_bits(model), optimizer_bits(optimizer)
    helper = ModelOptimizer(WHOLE)
    assert helper.optimize_model(model) is model
    assert [str(each) for each in helper.applied] == [
        "compile: done (whole model, mode default: 0 new graphs, 0 breaks)",
        "batched_loader: skipped (it changes how batches come, and this changes the model only)",
        "fused_optimizer: skipped (it changes the step, and this changes the model only)",
    ]
    assert model._compiled_call_impl is not None
    assert optimizer_bits(optimizer) == untouched
    model(torch.randn(8, 6)).sum().backward()
    helper.undo()
    assert model_form(model) == before["form"]
    assert model._compiled_call_impl is None


def test_a_model_optimizer_undoes_all_its_models() -> None:
    models = [make_model(), make_model()]
    helper = ModelOptimizer(WHOLE)
    for model in models:
        helper.optimize_model(model)
    assert [each.technique for each in helper.applied if each.outcome == "done"] == ["compile"] * 2
    helper.undo()
    assert [model._compiled_call_impl for model in models] == [None, None]


def test_a_model_optimizer_decides_by_the_model_alone() -> None:
    helper = ModelOptimizer(PerformanceConfig(enable_compile=True, enable_fused_optimizer=True))
    helper.optimize_model(make_model())
    assert {each.technique: each.outcome for each in helper.applied} == {
        "compile": "done",
        "fused_optimizer": "skipped",
    }
    helper.undo()
    helper = ModelOptimizer(BASIC)
    model = make_model()
    before = model_bits(model)
    helper.optimize_model(model)
    assert helper.applied == []
    assert model_bits(model) == before


def test_a_model_alone_is_not_compiled_with_a_loss() -> None:
    model = make_model()
    helper = ModelOptimizer(Plan(parts={"compile": {"regions": "with_loss"}}))
    helper.optimize_model(model)
    assert [str(each) for each in helper.applied] == [
        "compile: skipped (there is no loss here to compile the model with)"
    ]
    assert model._compiled_call_impl is None


def test_a_model_without_parameters_is_refused() -> None:
    with pytest.raises(HastenError, match="ReLU has no parameters"):
        ModelOptimizer().optimize_model(nn.ReLU())


@pytest.mark.parametrize("wish", [WHOLE, PerformanceConfig()], ids=["plan", "config"])
def test_a_training_optimizer_does_its_part_only(wish: Any) -> None:
    model, _, optimizer = make_parts()
    before = model_form(model)
    form = optimizer_form(optimizer)
    run = TrainingOptimizer(wish).optimize_training_step(model, optimizer, F.cross_entropy)
    assert isinstance(run, Run)
    done, *others = [str(each) for each in run.applied]
    assert done == "fused_optimizer: done (AdamW fused)"
    assert "compile: skipped (it changes the model, and this changes the step only)" in others
    assert set(run.plan.parts) == {"fused_optimizer"}
    assert model_form(model) == before
    assert optimizer.param_groups[0]["fused"]
    run.undo()
    assert optimizer_form(optimizer) == form


def test_a_training_optimizer_steps_batches_of_the_users_own_loader() -> None:
    model, loader, optimizer = make_parts()
    losses = train_plainly(
        model, loader, optimizer, epochs=3, clip_norm=0.5, each_step=StepLR(optimizer, 6)
    )
    expected = outcome(model, optimizer)
    model, loader, optimizer = make_parts()
    run = TrainingOptimizer(BASIC).optimize_training_step(
        model, optimizer, F.cross_entropy, clip_norm=0.5, scheduler=StepLR(optimizer, 6)
    )
    assert [float(run.step(batch)) for _ in range(3) for batch in loader] == losses
    assert outcome(model, optimizer) == expected


# Construction.


@pytest.mark.parametrize("kind", [PerformanceOptimizer, ModelOptimizer, TrainingOptimizer])
@pytest.mark.parametrize(
    "wish", [None, PerformanceConfig(optimization_level=OptimizationLevel.ULTRA), WHOLE]
)
def test_constructing_changes_nothing(kind: Any, wish: Any) -> None:
    before = torch_settings(), random_settings()
    made = kind(wish)
    assert (torch_settings(), random_settings()) == before
    assert made.wish == (wish or PerformanceConfig())


def test_reading_a_recipe_changes_nothing(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, plan=WHOLE.parts)
    before = torch_settings(), random_settings()
    PerformanceOptimizer.from_recipe(path)
    assert (torch_settings(), random_settings()) == before


def test_optimizing_a_loop_draws_no_random_number() -> None:
    model, loader, optimizer = make_parts()
    before = random_settings(), torch_settings()
    run = PerformanceOptimizer().optimize_training_pipeline(
        model, loader, optimizer, F.cross_entropy
    )
    assert (random_settings(), torch_settings()) == before
    run.undo()


def test_what_is_no_wish_is_refused_at_once() -> None:
    with pytest.raises(HastenError, match="A dict is neither a PerformanceConfig nor a Plan"):
        PerformanceOptimizer({"fused_optimizer": {}})  # type: ignore[arg-type]


def test_a_run_without_a_loader_says_so() -> None:
    model, _, optimizer = make_parts()
    run = TrainingOptimizer(NAIVE).optimize_training_step(model, optimizer, F.cross_entropy)
    with pytest.raises(HastenError, match="This run has no loader"):
        list(run.dataloader)
