"""All techniques by name, and the decoding of a plan's parts by their owners."""

import difflib
from typing import Any, get_type_hints

import msgspec

from hasten.errors import HastenError
from hasten.records.environment import Environment
from hasten.records.fields import field_docs
from hasten.records.kinds import known_values, shown
from hasten.records.plan import Plan
from hasten.records.recipe import Recipe
from hasten.records.record import from_builtins, unknown_name
from hasten.records.traits import Traits
from hasten.records.trial import Offer
from hasten.techniques.activation_checkpointing import ActivationCheckpointingTechnique
from hasten.techniques.attention import AttentionTechnique
from hasten.techniques.batch_size import BatchSizeTechnique
from hasten.techniques.batched_loader import BatchedLoaderTechnique
from hasten.techniques.compile import CompileTechnique
from hasten.techniques.convolution_search import ConvolutionSearchTechnique
from hasten.techniques.fused_optimizer import FusedOptimizerTechnique
from hasten.techniques.gradient_accumulation import GradientAccumulationTechnique
from hasten.techniques.kept_memory import KeptMemoryTechnique
from hasten.techniques.late_readings import LateReadingsTechnique
from hasten.techniques.loader_workers import LoaderWorkersTechnique
from hasten.techniques.matmul_precision import MatmulPrecisionTechnique
from hasten.techniques.memory_format import MemoryFormatTechnique
from hasten.techniques.mixed_precision import MixedPrecisionTechnique
from hasten.techniques.overlapped_transfer import OverlappedTransferTechnique
from hasten.techniques.recurrent_state import RecurrentStateTechnique
from hasten.techniques.resident_data import ResidentDataTechnique
from hasten.techniques.technique import Part, Stage, Technique
from hasten.techniques.weight_initialization import WeightInitializationTechnique
from hasten.techniques.whole_step_graph import WholeStepGraphTechnique

_techniques: dict[str, Technique[Any]] = {}


def register_technique(technique: type[Technique[Any]]) -> type[Technique[Any]]:
    """Make a technique known by its name. A user's own is treated just as a bundled one.

    Call it where the task is defined, so that every process that builds the task knows it too.
    """
    name = technique.name
    if not name.isidentifier():
        raise HastenError(f"{name!r} cannot name a technique.", fix="Use a Python identifier.")
    known = _techniques.get(name)
    if known is not None and type(known) is not technique:
        raise HastenError(
            f"A technique named {name!r} is registered already ({type(known).__name__}).",
            fix="Give yours another name.",
        )
    if not isinstance(technique.part, type) or not issubclass(technique.part, Part):
        raise HastenError(
            f"{technique.__name__}.part is not a subclass of hasten.Part.",
            fix="Let its settings be a class that derives from hasten.Part.",
        )
    for field in msgspec.structs.fields(technique.part):
        if field.required:
            raise HastenError(
                f"{technique.part.__name__}.{field.name} has no default.",
                fix="Give every setting of a technique one.",
            )
    _techniques[name] = technique()
    return technique


BUNDLED: tuple[type[Technique[Any]], ...] = (
    ActivationCheckpointingTechnique,
    AttentionTechnique,
    BatchSizeTechnique,
    BatchedLoaderTechnique,
    CompileTechnique,
    ConvolutionSearchTechnique,
    FusedOptimizerTechnique,
    GradientAccumulationTechnique,
    KeptMemoryTechnique,
    LateReadingsTechnique,
    LoaderWorkersTechnique,
    MatmulPrecisionTechnique,
    MemoryFormatTechnique,
    MixedPrecisionTechnique,
    OverlappedTransferTechnique,
    RecurrentStateTechnique,
    ResidentDataTechnique,
    WeightInitializationTechnique,
    WholeStepGraphTechnique,
)
for bundled in BUNDLED:
    register_technique(bundled)


def all_techniques() -> list[Technique[Any]]:
    """In the order in which they compose."""
    return sorted(_techniques.values(), key=_order)


def _order(technique: Technique[Any]) -> tuple[int, int, str]:
    """Within a stage, first those that leave the most others nothing to do."""
    return technique.stage, -len(technique.instead_of), technique.name


def get_technique(name: str, *, where: str = "", path: str = "") -> Technique[Any]:
    if name not in _techniques:
        error = unknown_name("technique", name, _techniques, where=where, path=path)
        own = "If it is your own, import the file that registers it first."
        raise HastenError(error.what, fix=f"{error.fix} {own}")
    return _techniques[name]


def decode(plan: Plan, *, where: str = "plan") -> list[tuple[Technique[Any], Part]]:
    """The plan's parts as their owners' structures, in the order of composition."""
    decoded = []
    for name, raw in plan.parts.items():
        technique = get_technique(name, where=where, path="plan")
        part = from_builtins(raw, technique.part, where=where, path=f"plan.{name}")
        _refuse_conflicts(technique, part, plan, where)
        decoded.append((technique, part))
    return sorted(decoded, key=lambda pair: _order(pair[0]))


def refuse_bad_parts(plan: Plan, *, where: str) -> None:
    """What is wrong with a plan as far as that is known before the task is imported, which may
    bring techniques of its own."""
    decode(Plan(parts={k: part for k, part in plan.parts.items() if k in _techniques}), where=where)


def _refuse_conflicts(technique: Technique[Any], part: Part, plan: Plan, where: str) -> None:
    raw = msgspec.to_builtins(part)
    for conflict in technique.conflicts:
        if not conflict.holds(raw, plan):
            continue
        key, other = f"plan.{technique.name}", f"plan.{conflict.beside}"
        fix = f"Take {key} or {other} out."
        for setting, values in conflict.settings.items():
            key = f"{key}.{setting} = {shown(raw[setting])}"
            known = known_values(get_type_hints(technique.part)[setting])
            allowed = [each for each in known if each not in values]
            near = difflib.get_close_matches(raw[setting], allowed, n=1, cutoff=0)
            if near:
                fix = f"Write {shown(near[0])}, or take {other} out."
        raise HastenError(f"{where}: {key} cannot be beside {other}: {conflict.why}.", fix=fix)


def refusal(technique: Technique[Any], environment: Environment, traits: Traits) -> str | None:
    return technique.unavailable(environment) or technique.unsuited(traits)


def offers(environment: Environment, traits: Traits) -> tuple[Offer, ...]:
    """What each technique would try on this task and machine, or why it would not."""
    return tuple(_offer(each, environment, traits) for each in all_techniques())


def _offer(technique: Technique[Any], environment: Environment, traits: Traits) -> Offer:
    reason = refusal(technique, environment, traits)
    parts = () if reason else technique.to_try(environment, traits)
    return Offer(
        technique=technique.name,
        rung=technique.rung,
        answers=technique.answers,
        parts=tuple(msgspec.to_builtins(part) for part in parts),
        changes_data=technique.stage in (Stage.DATA, Stage.TRANSFER),
        slow_to_prepare=technique.slow_to_prepare,
        steadies=technique.steadies,
        refusal=reason,
        untried=technique.untried,
        instead_of=technique.instead_of,
        brings=technique.brings,
        conflicts=technique.conflicts,
    )


def recipe_schema() -> dict[str, Any]:
    """JSON Schema of recipe.toml with every technique's settings, so that editors complete it."""
    schema = msgspec.json.schema(Recipe)
    parts = {}
    for technique in all_techniques():
        parts[technique.name], others = _part_schema(technique)
        schema["$defs"] |= others
    schema["$defs"]["Recipe"]["properties"]["plan"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": parts,
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _part_schema(technique: Technique[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of the part itself, and of the types of its fields, under names that are this part's own."""
    prefix = f"{technique.name}."
    _, components = msgspec.json.schema_components(
        [technique.part], ref_template=f"#/$defs/{prefix}{{name}}"
    )
    part = components.pop(technique.part.__name__)
    docs = field_docs(technique.part)
    for name, field in part["properties"].items():
        if name in docs:
            field["description"] = docs[name]
    others = {prefix + name: component for name, component in components.items()}
    return {**part, "description": technique.about}, others
