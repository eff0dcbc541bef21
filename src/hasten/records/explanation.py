"""What is to be known of a technique, in its own words."""

from typing import Literal

from hasten.records.plan import PartValue, Rung
from hasten.records.record import Record
from hasten.records.scan import RuleInWords


class Setting(Record, frozen=True, kw_only=True):
    """One key under ``[plan.NAME]``."""

    name: str
    takes: str
    """Its type or allowed values, in words."""
    default: PartValue | None
    about: str


class Explanation(Record, frozen=True, kw_only=True):
    technique: str
    stage: str
    """Where it stands in the order of composition."""
    about: str
    helps: str
    costs: str
    rung: Rung
    rung_means: str
    limits: str
    needs: str
    settings: tuple[Setting, ...]
    instead_of: tuple[str, ...]
    """Techniques that have nothing left to do beside this one."""
    gives_way_to: tuple[str, ...]
    """Techniques beside which this one has nothing left to do."""
    level: Literal["basic", "advanced", "ultra"] | None
    """The first level that chooses it, where it can apply; None where none does unasked."""
    recipe: str
    """What switches it on in recipe.toml, with every setting at its default."""
    wish: str
    """What asks for it in Python: the wish that a PerformanceOptimizer is made of."""


class Explanations(Record, frozen=True, kw_only=True):
    """The document of ``hasten explain``: what was asked for, or all there is: techniques in the
    order of composition, rules of ``hasten scan`` by their codes."""

    techniques: tuple[Explanation, ...]
    rules: tuple[RuleInWords, ...] = ()
