"""What holds for every technique: it can be taken back whole, and it does not hide the model."""

import copy
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor, nn

from hasten.errors import HastenError
from hasten.host.environment import read_environment
from hasten.records.plan import Plan, RawPart, Rung
from hasten.runtime.run import Run
from hasten.task.pipeline import Pipeline
from hasten.task.traits import read_traits
from hasten.techniques.registry import BUNDLED, all_techniques, decode, get_technique
from hasten.techniques.technique import CannotApply, Effect, Part, Technique
from torch_state import (
    model_bits,
    model_form,
    optimizer_bits,
    optimizer_form,
    random_settings,
    torch_settings,
)
from trainings import make_training

NO_CUDA = "there is no CUDA device"
NEEDS_CUDA = (
    "convolution_search",
    "matmul_precision",
    "overlapped_transfer",
    "resident_data",
    "whole_step_graph",
)
WHERE_IT_APPLIES: list[tuple[str, RawPart, str]] = [
    ("activation_checkpointing", {"keep": "nothing"}, "transformer"),
    ("activation_checkpointing", {"keep": "products"}, "convolutions"),
    ("attention", {"kernel": "flash", "masks": "simplify"}, "transformer"),
    ("batch_size", {"times": 2, "learning_rate": "sqrt"}, "perceptron"),
    ("batched_loader", {}, "perceptron"),
    ("compile", {"backend": "aot_eager", "cache_dir": "compiled"}, "perceptron"),
    ("compile", {"backend": "aot_eager", "regions": "blocks"}, "transformer"),
    ("fused_optimizer", {}, "perceptron"),
    ("fused_optimizer", {"implementation": "foreach"}, "language"),
    ("gradient_accumulation", {}, "perceptron"),
    ("kept_memory", {}, "perceptron"),
    ("late_readings", {}, "perceptron"),
    ("loader_workers", {"workers": 1}, "perceptron"),
    ("memory_format", {}, "convolutions"),
    ("mixed_precision", {"dtype": "bf16"}, "transformer"),
    ("mixed_precision", {"dtype": "fp16"}, "perceptron"),
    ("recurrent_state", {"state": "none"}, "recurrent"),
    ("recurrent_state", {"state": "kept"}, "recurrent"),
    ("weight_initialization", {}, "perceptron"),
]
every_technique = pytest.mark.parametrize(
    "technique", [each() for each in BUNDLED], ids=lambda technique: technique.name
)
each_where_it_applies = pytest.mark.parametrize(
    ("name", "part", "training"),
    WHERE_IT_APPLIES,
    ids=["-".join([name, *map(str, part.values())]) for name, part, _ in WHERE_IT_APPLIES],
)


@pytest.fixture(autouse=True)
def _forget_compiled_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)  # where a relative cache of it lies
    yield
    torch._dynamo.reset()


def apply(pipeline: Pipeline, name: str, part: RawPart) -> Effect:
    ((technique, decoded),) = decode(Plan(parts={name: part}))
    return technique.apply(pipeline, decoded)


def run_with(name: str, part: RawPart, pipeline: Pipeline) -> Run:
    """Really applied: what was skipped would pass most tests here."""
    run = Run(pipeline, Plan(parts={name: part}))
    assert_done(run)
    return run


def assert_done(run: Run) -> None:
    assert [str(each) for each in run.applied if each.outcome != "done"] == []


def take_steps(run: Run, steps: int) -> list[float]:
    return [float(run.step(batch)) for _, batch in zip(range(steps), run.endless(), strict=False)]


def loss_of(pipeline: Pipeline, model: nn.Module, batch: Any) -> Tensor:
    if pipeline.initial_state is None:
        return pipeline.forward(model, batch)
    return pipeline.forward(model, batch, pipeline.initial_state(batch))[0]


def everything(pipeline: Pipeline) -> list[Any]:
    model, optimizer = pipeline.model, pipeline.optimizers[0]
    return [
        model_bits(model),
        optimizer_bits(optimizer),
        dict(vars(pipeline)),
        sorted(vars(pipeline.loader)),
        torch_settings(),
        random_settings(),
        dict(os.environ),
    ]


def test_every_technique_is_tried_here_or_needs_a_device() -> None:
    tried = {name for name, _, _ in WHERE_IT_APPLIES}
    assert tried | set(NEEDS_CUDA) == {each.name for each in BUNDLED}
    assert not tried & set(NEEDS_CUDA)


@every_technique
def test_a_technique_explains_itself(technique: Technique[Any]) -> None:
    for text in ("about", "helps", "costs", "limits", "needs"):
        said = getattr(technique, text)
        assert said, f"{technique.name}.{text}"
        assert said.endswith("."), said
        assert "  " not in said, said
    known = {each.name for each in all_techniques()}
    assert set(technique.instead_of) <= known - {technique.name}


@every_technique
def test_what_a_technique_would_try_are_settings_of_its_own(technique: Technique[Any]) -> None:
    assert isinstance(technique.part(), Part)
    environment, traits = read_environment(), read_traits(make_training("perceptron"))
    tries = technique.to_try(environment, traits)
    assert tries or technique.reserved_for == "asked"
    for each in [*tries, technique.strongest(environment, traits)]:
        assert type(each) is technique.part
        assert decode(Plan(parts={technique.name: msgspec.to_builtins(each)}))[0][1] == each


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("name", NEEDS_CUDA)
@pytest.mark.parametrize("training", ["perceptron", "convolutions"])
def test_what_needs_a_device_says_so_and_changes_nothing(name: str, training: str) -> None:
    pipeline = make_training(training)
    technique = get_technique(name)
    assert technique.unavailable(read_environment()) == NO_CUDA
    before = everything(pipeline)
    with pytest.raises(CannotApply) as refusal:
        apply(pipeline, name, {})
    assert str(refusal.value) == NO_CUDA
    assert everything(pipeline) == before


@each_where_it_applies
def test_a_technique_applied_and_undone_leaves_everything_as_it_was(
    name: str, part: RawPart, training: str
) -> None:
    pipeline = make_training(training)
    Run(pipeline)  # puts the plain step there
    loader, before = pipeline.loader, everything(pipeline)
    effect = apply(pipeline, name, part)
    assert effect.words()
    effect.undo()
    assert everything(pipeline) == before
    assert pipeline.loader is loader


@each_where_it_applies
def test_a_technique_applied_in_the_midst_of_a_training_can_be_undone_too(
    name: str, part: RawPart, training: str
) -> None:
    pipeline = make_training(training)
    take_steps(Run(pipeline), 2)
    before = everything(pipeline)
    if name == "weight_initialization":
        with pytest.raises(CannotApply, match="the training has begun"):
            apply(pipeline, name, part)
    else:
        apply(pipeline, name, part).undo()
    assert everything(pipeline) == before


@each_where_it_applies
def test_a_technique_undone_after_some_steps_leaves_the_form_of_a_plain_training(
    name: str, part: RawPart, training: str
) -> None:
    plain, changed = make_training(training), make_training(training)
    parts = {key: id(value) for key, value in vars(changed).items() if key != "reduction"}
    identity = [id(each) for each in changed.model.parameters()]
    settings, variables = torch_settings(), dict(os.environ)
    run = run_with(name, part, changed)
    torch.manual_seed(1)
    losses = take_steps(run, 5)
    assert_done(run)
    run.undo()
    random_after = random_settings()
    assert torch_settings() == settings
    assert dict(os.environ) == variables
    assert [id(each) for each in changed.model.parameters()] == identity
    kept = {key: id(value) for key, value in vars(changed).items() if key in parts}
    assert {key for key in parts if kept[key] != parts[key]} == {"step"}  # the plain one of the run
    assert changed.step is run.eager

    torch.manual_seed(1)
    plain_losses = take_steps(Run(plain), 5)
    assert _without_identities(changed.model) == _without_identities(plain.model)
    assert optimizer_form(changed.optimizers[0]) == optimizer_form(plain.optimizers[0])
    if get_technique(name).rung is Rung.BITWISE:
        assert losses == plain_losses
        assert random_after == random_settings()
        assert model_bits(changed.model)["state"] == model_bits(plain.model)["state"]
        assert optimizer_bits(changed.optimizers[0]) == optimizer_bits(plain.optimizers[0])


def _without_identities(model: nn.Module) -> dict[str, object]:
    return {key: value for key, value in model_form(model).items() if key != "parameters"}


@each_where_it_applies
def test_undoing_twice_is_undoing_once(name: str, part: RawPart, training: str) -> None:
    pipeline = make_training(training)
    take_steps(Run(pipeline), 0 if name == "weight_initialization" else 1)
    effect = apply(pipeline, name, part)
    run = Run(pipeline) if name != "late_readings" else None
    if run is not None:
        take_steps(run, 1)
    effect.undo()
    before = everything(pipeline)
    effect.undo()
    assert everything(pipeline) == before


@every_technique
def test_a_key_that_a_technique_does_not_know_is_refused_with_its_path(
    technique: Technique[Any],
) -> None:
    names = [field.encode_name for field in msgspec.structs.fields(technique.part)]
    misspelt = names[0] + "x" if names else "nonsense"
    with pytest.raises(HastenError) as refusal:
        decode(Plan(parts={technique.name: {misspelt: 1}}), where="recipe.toml")
    path = f"plan.{technique.name}"
    near = f"Take it out: {path} has no settings."
    if names:
        near = f"Did you mean '{path}.{names[0]}'?"
    assert str(refusal.value) == f"recipe.toml: key '{path}.{misspelt}' is not known. {near}"


@each_where_it_applies
@pytest.mark.parametrize("steps", [0, 2])
def test_the_model_still_copies_and_pickles(
    name: str, part: RawPart, training: str, steps: int
) -> None:
    pipeline = make_training(training)
    model, batch = pipeline.model, next(iter(pipeline.loader))
    run = run_with(name, part, pipeline)
    take_steps(run, steps)
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    if name != "weight_initialization":
        run.undo()
    model.eval()
    for each in copies:
        assert type(each) is type(model)
        assert model_bits(each.eval())["state"] == model_bits(model)["state"]
        assert torch.equal(loss_of(pipeline, each, batch), loss_of(pipeline, model, batch))


@each_where_it_applies
def test_the_optimizer_still_saves_and_loads(name: str, part: RawPart, training: str) -> None:
    pipeline = make_training(training)
    run = run_with(name, part, pipeline)
    take_steps(run, 2)
    saved = copy.deepcopy(pipeline.optimizers[0].state_dict())
    run.undo()
    other = make_training(training)
    other.optimizers[0].load_state_dict(saved)
    take_steps(Run(other), 1)
    assert other.optimizers[0].state_dict()["state"][0]["step"] == 3
