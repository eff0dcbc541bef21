"""What the flags of ``hasten train`` ask for by name, on the way to a plan."""

from dataclasses import dataclass
from typing import Literal

from hasten.config import OptimizationLevel, PerformanceConfig
from hasten.records.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Wishes:
    mixed_precision: Literal["fp16", "bf16", "none"] | None = None
    """None says nothing; "none" is a wish for full precision."""
    compile_model: bool = False
    gradient_checkpointing: bool = False

    def over(self, plan: Plan) -> Plan:
        """A plan with these on top. What it has already keeps its settings, but for a precision
        that is named here."""
        if self.mixed_precision == "none":
            plan = plan.without("mixed_precision")
        elif self.mixed_precision is not None:
            plan = plan.with_part("mixed_precision", {"dtype": self.mixed_precision})
        asked = {
            "compile": self.compile_model,
            "activation_checkpointing": self.gradient_checkpointing,
        }
        for technique, wanted in asked.items():
            if wanted and technique not in plan.parts:
                plan = plan.with_part(technique, {})
        return plan

    def at(self, level: OptimizationLevel) -> PerformanceConfig:
        """A level with these as wishes; it is decided when the task is there to look at."""
        dtype = None if self.mixed_precision == "none" else self.mixed_precision
        return PerformanceConfig(
            optimization_level=level,
            enable_amp=None if self.mixed_precision is None else dtype is not None,
            amp_dtype=dtype,
            enable_compile=self.compile_model or None,
            enable_gradient_checkpointing=self.gradient_checkpointing or None,
        )
