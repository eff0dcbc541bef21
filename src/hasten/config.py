"""What the user wants. ``resolve`` turns wishes into a plan; below this file only plans exist."""

from dataclasses import dataclass
from enum import Enum
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from hasten.errors import HastenError
from hasten.records.environment import Environment
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.record import from_builtins
from hasten.records.traits import Traits
from hasten.techniques.registry import all_techniques, refusal
from hasten.techniques.technique import Part, Technique


class OptimizationLevel(Enum):
    """A starting point, not a claim: nothing here was measured yet."""

    BASIC = "basic"
    """Techniques that leave every bit as it was."""
    ADVANCED = "advanced"
    """And those that change the order of a sum, or the precision."""
    ULTRA = "ultra"
    """And those that take longest to prepare, up to the whole step as one graph."""


class MemoryFormat(Enum):
    """How images are laid out in memory. CHANNELS_FIRST is torch's usual one, CONTIGUOUS."""

    AUTO = "auto"
    """Channels-last where the model has convolutions of images."""
    CHANNELS_LAST = "channels_last"
    """The channels of a pixel lie beside each other."""
    CONTIGUOUS = "contiguous"
    """As torch makes them."""
    CHANNELS_FIRST = "channels_first"
    """Another name for the same."""


CHANNELS_FIRST = (MemoryFormat.CONTIGUOUS, MemoryFormat.CHANNELS_FIRST)

DEEPEST_RUNG = {
    OptimizationLevel.BASIC: Rung.BITWISE,
    OptimizationLevel.ADVANCED: Rung.PARITY,
    OptimizationLevel.ULTRA: Rung.PARITY,
}


FIELDS = {
    "mixed_precision": "enable_amp",
    "matmul_precision": "enable_tf32",
    "compile": "enable_compile",
    "activation_checkpointing": "enable_gradient_checkpointing",
    "memory_format": "enable_memory_format_optimization",
    "attention": "enable_flash_attention",
    "fused_optimizer": "enable_fused_optimizer",
    "whole_step_graph": "enable_cuda_graphs",
    "batched_loader": "enable_batched_loading",
    "resident_data": "enable_resident_data",
    "loader_workers": "num_workers",
    "gradient_accumulation": "gradient_accumulation_steps",
    "weight_initialization": "weight_initialization",
}
"""The field of a PerformanceConfig that asks for a technique by name."""


@dataclass(frozen=True, kw_only=True)
class PerformanceConfig:
    """Wishes. None means: you decide."""

    optimization_level: OptimizationLevel = OptimizationLevel.ADVANCED
    """Decides where the others are None."""
    enable_performance_optimization: bool = True
    """False changes nothing at all, whatever the other fields say."""
    enable_amp: bool | None = None
    """Mixed precision: matrix products in 16 bits."""
    amp_dtype: Literal["bf16", "fp16"] | None = None
    """None is bf16, and fp16 on a GPU that has nothing else; fp16 brings a gradient scaler."""
    enable_tf32: bool | None = None
    """Matrix products of float32 in TF32, on GPUs that have it."""
    enable_compile: bool | None = None
    """``torch.compile`` of the model."""
    enable_gradient_checkpointing: bool | None = None
    """Repeated blocks are computed again in the backward pass: less memory, more time."""
    enable_memory_format_optimization: bool | None = None
    """Images in the layout that ``memory_format`` names."""
    memory_format: MemoryFormat = MemoryFormat.AUTO
    """AUTO is channels-last where it applies."""
    enable_flash_attention: bool | None = None
    """Attention by a fused kernel."""
    enable_fused_optimizer: bool | None = None
    """The update in one kernel."""
    enable_cuda_graphs: bool | None = None
    """The whole step as one CUDA graph."""
    enable_batched_loading: bool | None = None
    """Data in memory is gathered a batch at a time."""
    enable_resident_data: bool | None = None
    """Data is kept on the device."""
    num_workers: int | None = None
    """Processes of the DataLoader. 0 and None leave the loader's own."""
    gradient_accumulation_steps: int = 1
    """Pieces that each batch is computed in; the batch stays as large as it is."""
    weight_initialization: str | None = None
    """The name of a scheme. Changes the training."""

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(PerformanceConfig).items():
            value = getattr(self, name)
            if not _fits(value, kind):
                raise HastenError(f"{name}={value!r} is not possible.", fix=f"Use {_words(kind)}.")
        if self.gradient_accumulation_steps < 1:
            raise HastenError(
                f"gradient_accumulation_steps={self.gradient_accumulation_steps} is not possible.",
                fix="Use 1 or more.",
            )
        if self.num_workers is not None and self.num_workers < 0:
            raise HastenError(
                f"num_workers={self.num_workers} is not possible.", fix="Use 0 or more."
            )
        layout, asked = self.memory_format, self.enable_memory_format_optimization
        if layout is not MemoryFormat.AUTO and asked is (layout in CHANNELS_FIRST):
            raise HastenError(
                f"memory_format={layout} and enable_memory_format_optimization={asked} contradict "
                "each other.",
                fix="Leave one of them out.",
            )

    def resolve(self, environment: Environment, traits: Traits) -> Plan:
        """Decide. A technique asked for by name is in the plan even where it cannot apply: it is
        then skipped when the plan is applied, and the record says why."""
        if not self.enable_performance_optimization:
            return NAIVE
        plan, superseded = NAIVE, set[str]()
        asked = self._asked()
        for technique in all_techniques():
            wish = asked.get(technique.name)
            if wish is None:
                wish = technique.name not in superseded and self._by_level(
                    technique, environment, traits
                )
            if wish:
                superseded |= set(technique.instead_of)
                part = self._settings(technique, environment, traits)
                plan = plan.with_part(technique.name, msgspec.to_builtins(part))
        return plan

    def _asked(self) -> dict[str, bool | None]:
        layout = self.enable_memory_format_optimization
        if self.memory_format is not MemoryFormat.AUTO and layout is None:
            layout = self.memory_format not in CHANNELS_FIRST
        return {name: getattr(self, field) for name, field in FIELDS.items()} | {
            "memory_format": layout,
            "loader_workers": True if self.num_workers else None,
            "gradient_accumulation": True if self.gradient_accumulation_steps > 1 else None,
            "weight_initialization": True if self.weight_initialization else None,
        }

    def _by_level(
        self, technique: Technique[Any], environment: Environment, traits: Traits
    ) -> bool:
        return (
            _may_choose(self.optimization_level, technique)
            and refusal(technique, environment, traits) is None
            and bool(technique.to_try(environment, traits))
        )

    def _settings(
        self, technique: Technique[Any], environment: Environment, traits: Traits
    ) -> Part:
        own = self._own_settings(technique.name)
        if own is not None:
            part: Part = from_builtins(own, technique.part, where="PerformanceConfig")
        elif self.optimization_level is OptimizationLevel.ULTRA:
            part = technique.strongest(environment, traits)
        else:
            tries = technique.to_try(environment, traits)
            part = tries[0] if tries else technique.part()
        return part

    def _own_settings(self, name: str) -> dict[str, Any] | None:
        """Of the techniques whose settings the user may name."""
        named: dict[str, dict[str, Any]] = {
            "loader_workers": {"workers": self.num_workers},
            "gradient_accumulation": {"steps": self.gradient_accumulation_steps},
            "weight_initialization": {"scheme": self.weight_initialization},
        }
        if self.amp_dtype is not None:
            named["mixed_precision"] = {"dtype": self.amp_dtype}
        return named.get(name)


def lowest_level(technique: Technique[Any]) -> OptimizationLevel | None:
    """The first level that chooses it, where it can apply; None where none does unasked."""
    return next((level for level in OptimizationLevel if _may_choose(level, technique)), None)


def _may_choose(level: OptimizationLevel, technique: Technique[Any]) -> bool:
    if technique.reserved_for == "asked":
        return False
    if technique.reserved_for == "ultra" and level is not OptimizationLevel.ULTRA:
        return False
    return technique.rung.depth() <= DEEPEST_RUNG[level].depth()


def _fits(value: object, kind: Any) -> bool:
    """Strictly: a string is no member of an enumeration, and True no number."""
    choices = get_args(kind)
    if get_origin(kind) is Literal:
        return value in choices
    return any(_fits(value, each) for each in choices) if choices else type(value) is kind


def _words(kind: Any) -> str:
    if get_args(kind):
        literal = get_origin(kind) is Literal
        return " or ".join(repr(each) if literal else _words(each) for each in get_args(kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " or ".join(map(str, kind))
    return {bool: "True or False", NoneType: "None", int: "a number", str: "a name"}[kind]
