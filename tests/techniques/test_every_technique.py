"""What holds for every technique: it can be taken back whole, and it does not hide the model."""

import copy
import functools
import pickle
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from hasten.errors import HastenError
from hasten.host.environment import read_environment
from hasten.records.plan import Plan, Rung
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.traits import read_traits
from hasten.techniques.registry import all_techniques, decode
from hasten.techniques.technique import Part, Technique
from plain_loop import make_loader, make_model
from torch_state import (
    model_bits,
    model_form,
    optimizer_bits,
    optimizer_form,
    random_settings,
    torch_settings,
)

every_technique = pytest.mark.parametrize(
    "technique", all_techniques(), ids=lambda technique: technique.name
)


@pytest.fixture(autouse=True)
def _quick_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All of torch.compile but its slow last stage."""
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    yield
    torch._dynamo.reset()


def make_pipeline(seed: int = 0) -> Pipeline:
    """On which every bundled technique has something to do."""
    torch.manual_seed(seed)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    return Pipeline.from_loop(model, make_loader(), optimizer, F.cross_entropy)


def plan_of(technique: Technique[Any], pipeline: Pipeline) -> Plan:
    environment, traits = read_environment(), read_traits(pipeline)
    reason = technique.unsuited(traits)
    assert reason is None, f"make_pipeline gives {technique.name} nothing to do: {reason}"
    part = technique.to_try(environment, traits)[0]
    return Plan(parts={technique.name: msgspec.to_builtins(part)})


def run_with(technique: Technique[Any], pipeline: Pipeline) -> Run:
    """Really applied: what was skipped would pass most tests here."""
    run = Run(pipeline, plan_of(technique, pipeline))
    assert [str(each) for each in run.applied if each.outcome != "done"] == []
    return run


def take_steps(run: Run, steps: int) -> list[float]:
    return [float(run.step(batch)) for _, batch in zip(range(steps), run.endless(), strict=False)]


@every_technique
def test_a_technique_says_what_it_is(technique: Technique[Any]) -> None:
    assert technique.about.endswith(".")
    assert technique.answers
    part = technique.part()
    assert isinstance(part, Part)
    assert all(field.name for field in msgspec.structs.fields(part))
    pipeline = make_pipeline()
    for each in technique.to_try(read_environment(), read_traits(pipeline)):
        assert type(each) is technique.part


@every_technique
def test_a_technique_applied_and_undone_leaves_everything_as_it_was(
    technique: Technique[Any],
) -> None:
    pipeline = make_pipeline()
    plan = plan_of(technique, pipeline)
    model, loader, optimizer = pipeline.model, pipeline.loader, pipeline.optimizers[0]

    def everything() -> list[Any]:
        state = [model_bits(model), optimizer_bits(optimizer), dict(vars(pipeline))]
        return [*state, torch_settings(), random_settings(), sorted(vars(loader))]

    before = everything()
    run = Run(pipeline, plan)
    assert [each.outcome for each in run.applied] == ["done"]
    run.undo()
    assert everything() == before
    assert pipeline.loader is loader


@every_technique
def test_a_technique_undone_after_some_steps_leaves_the_form_of_a_plain_training(
    technique: Technique[Any],
) -> None:
    plain, changed = make_pipeline(), make_pipeline()
    identity = [id(each) for each in changed.model.parameters()]
    loader, settings = changed.loader, torch_settings()
    run = run_with(technique, changed)
    torch.manual_seed(1)
    losses = take_steps(run, 9)
    assert [each.outcome for each in run.applied] == ["done"]
    run.undo()
    random_after = random_settings()
    assert torch_settings() == settings
    assert changed.loader is loader
    assert [id(each) for each in changed.model.parameters()] == identity

    torch.manual_seed(1)
    plain_losses = take_steps(Run(plain), 9)
    assert _without_identities(changed.model) == _without_identities(plain.model)
    assert optimizer_form(changed.optimizers[0]) == optimizer_form(plain.optimizers[0])
    if technique.rung is Rung.BITWISE:
        assert losses == plain_losses
        assert random_after == random_settings()
        assert model_bits(changed.model)["state"] == model_bits(plain.model)["state"]
        assert optimizer_bits(changed.optimizers[0]) == optimizer_bits(plain.optimizers[0])


def _without_identities(model: nn.Module) -> dict[str, object]:
    return {key: value for key, value in model_form(model).items() if key != "parameters"}


@every_technique
def test_undoing_twice_is_undoing_once(technique: Technique[Any]) -> None:
    pipeline = make_pipeline()
    run = run_with(technique, pipeline)
    take_steps(run, 1)
    run.undo()
    before = model_bits(pipeline.model), optimizer_bits(pipeline.optimizers[0])
    run.undo()
    assert (model_bits(pipeline.model), optimizer_bits(pipeline.optimizers[0])) == before


@every_technique
def test_a_key_that_a_technique_does_not_know_is_refused_with_its_path(
    technique: Technique[Any],
) -> None:
    names = [field.encode_name for field in msgspec.structs.fields(technique.part)]
    misspelt = names[0] + "x" if names else "nonsense"
    with pytest.raises(HastenError) as refusal:
        decode(Plan(parts={technique.name: {misspelt: 1}}), where="recipe.toml")
    path = f"plan.{technique.name}"
    near = f"Did you mean '{path}.{names[0]}'?" if names else "Known: none."
    assert str(refusal.value) == f"recipe.toml: key '{path}.{misspelt}' is not known. {near}"


@every_technique
@pytest.mark.parametrize("steps", [0, 2])
def test_the_model_still_copies_and_pickles(technique: Technique[Any], steps: int) -> None:
    pipeline = make_pipeline()
    model, probe = pipeline.model, torch.randn(8, 6)
    run = run_with(technique, pipeline)
    take_steps(run, steps)
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    run.undo()
    model.eval()
    for each in copies:
        assert type(each) is type(model)
        assert model_bits(each.eval())["state"] == model_bits(model)["state"]
        assert torch.equal(each(probe), model(probe))


@every_technique
def test_the_optimizer_still_saves_and_loads(technique: Technique[Any]) -> None:
    pipeline = make_pipeline()
    run = run_with(technique, pipeline)
    take_steps(run, 2)
    saved = copy.deepcopy(pipeline.optimizers[0].state_dict())
    run.undo()
    other = make_pipeline(seed=5)
    other.optimizers[0].load_state_dict(saved)
    take_steps(Run(other), 1)
    assert other.optimizers[0].state_dict()["state"][0]["step"] == 3
