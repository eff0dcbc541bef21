"""What the user wants. ``resolve`` turns wishes into a plan; below this file only plans exist."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from hasten.records.environment import Environment
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.traits import Traits
from hasten.techniques.compile import CompilePart
from hasten.techniques.registry import all_techniques, refusal
from hasten.techniques.technique import Part, Technique


class OptimizationLevel(Enum):
    """A starting point, not a claim: nothing here was measured yet."""

    BASIC = "basic"
    """Techniques that leave every bit as it was."""
    ADVANCED = "advanced"
    """And those that change the order of a sum, or the precision."""
    ULTRA = "ultra"
    """And those that take long to prepare."""


DEEPEST_RUNG = {
    OptimizationLevel.BASIC: Rung.BITWISE,
    OptimizationLevel.ADVANCED: Rung.PARITY,
    OptimizationLevel.ULTRA: Rung.PARITY,
}


@dataclass(frozen=True, kw_only=True)
class PerformanceConfig:
    """Wishes. None means: you decide."""

    optimization_level: OptimizationLevel = OptimizationLevel.ADVANCED
    enable_performance_optimization: bool = True
    """False changes nothing at all, whatever the other fields say."""
    enable_batched_loading: bool | None = None
    enable_compile: bool | None = None
    enable_fused_optimizer: bool | None = None

    def resolve(self, environment: Environment, traits: Traits) -> Plan:
        """Decide. A technique asked for by name is in the plan even where it cannot apply: it is
        then skipped when the plan is applied, and the record says why."""
        if not self.enable_performance_optimization:
            return NAIVE
        plan = NAIVE
        for technique in all_techniques():
            wish = self._wish(technique.name)
            if wish is None:
                wish = self._by_level(technique, environment, traits)
            if wish:
                part = self._settings(technique, environment, traits)
                plan = plan.with_part(technique.name, msgspec.to_builtins(part))
        return plan

    def _wish(self, technique: str) -> bool | None:
        wishes = {
            "batched_loader": self.enable_batched_loading,
            "compile": self.enable_compile,
            "fused_optimizer": self.enable_fused_optimizer,
        }
        return wishes.get(technique)

    def _by_level(
        self, technique: Technique[Any], environment: Environment, traits: Traits
    ) -> bool:
        deepest = DEEPEST_RUNG[self.optimization_level]
        allowed = technique.rung.depth() <= deepest.depth()
        return allowed and refusal(technique, environment, traits) is None

    def _settings(
        self, technique: Technique[Any], environment: Environment, traits: Traits
    ) -> Part:
        ultra = self.optimization_level is OptimizationLevel.ULTRA
        if technique.name == "compile" and ultra:
            return CompilePart(mode="max-autotune")
        tries = technique.to_try(environment, traits)
        part: Part = tries[0] if tries else technique.part()
        return part
