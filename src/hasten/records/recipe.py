"""What a tuning kept, as two files: the recipe that a run applies, the evidence behind it."""

from pathlib import Path
from typing import Literal

from hasten.errors import HastenError
from hasten.records.applied import Applied
from hasten.records.environment import Environment
from hasten.records.finding import Finding
from hasten.records.measurement import Measurement, Memory
from hasten.records.plan import Plan, RawPart, Rung
from hasten.records.record import Record, from_builtins, parse_toml
from hasten.records.traits import Traits
from hasten.records.trial import Trial
from hasten.records.verdict import Comparison, NumericsClaim, SpeedClaim, Verdict

RECIPE_FORMAT = 1
LARGEST_RECIPE_BYTES = 1_000_000


class RecipeSpeed(Record, frozen=True, kw_only=True):
    verdict: Verdict
    ratio: float
    low: float
    high: float
    rows_per_s: float | None = None
    """With the plan, when it was proven. Recipes made before this field do not say."""


class RecipeNumerics(Record, frozen=True, kw_only=True):
    verdict: Verdict
    rung: Rung


class Recipe(Record, frozen=True, kw_only=True):
    """``recipe.toml``. A person may edit ``plan``; what it claims is then no longer backed."""

    format: int
    task: str
    created: str
    hasten: str
    evidence_sha256: str
    plan: dict[str, RawPart]
    speed: RecipeSpeed
    numerics: RecipeNumerics
    environment: Environment

    def as_plan(self) -> Plan:
        return Plan(parts=self.plan)


class Confirmation(Record, frozen=True, kw_only=True):
    """Plan B against plan A, in pairs of fresh processes."""

    pairs: tuple[Comparison, ...]
    applied: tuple[Applied, ...]
    a_memory: Memory | None
    b_memory: Memory | None
    failure: str | None
    """Why a process did not finish; the pairs are then not enough for a claim."""


class Evidence(Record, frozen=True, kw_only=True):
    """``evidence.json``: everything that was measured, losers included."""

    format: int
    task: str
    created: str
    hasten: str
    outcome: Literal["recipe", "nothing_to_gain", "unproven"]
    verdict: Verdict
    why: str
    seed: int
    environment: Environment
    traits: Traits
    naive: Measurement
    findings: tuple[Finding, ...]
    control: Comparison
    trials: tuple[Trial, ...]
    plan: Plan
    confirmation: Confirmation | None
    speed: SpeedClaim | None
    numerics: NumericsClaim | None
    elapsed_s: float


def read_recipe(path: Path) -> Recipe:
    """A recipe is data from anywhere: closed keys, a size limit, nothing in it is run."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_RECIPE_BYTES + 1)
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise HastenError(
            f"The recipe {path} cannot be read: {error}.",
            fix="Give the recipe.toml that hasten tune wrote.",
        ) from error
    if len(content) > LARGEST_RECIPE_BYTES:
        raise HastenError(
            f"{path} has more than {LARGEST_RECIPE_BYTES:,} bytes, which no recipe has.",
            fix="Give the recipe.toml that hasten tune wrote.",
        )
    raw = parse_toml(text, where=str(path))
    if raw.get("format", RECIPE_FORMAT) != RECIPE_FORMAT:
        # Asked before the keys are: another format has other ones.
        raise HastenError(
            f"{path}: format {raw['format']!r} is not known; this Hasten reads {RECIPE_FORMAT}.",
            fix="Run hasten tune again.",
        )
    return from_builtins(raw, Recipe, where=str(path))


def other_machine(path: str, differences: list[str], *, fix: str = "") -> HastenError:
    return HastenError(
        f"{path} was proven on another machine ({'; '.join(differences)}).",
        fix=fix
        or f"Tune again here; or, if `hasten prove TASK {path}` proves it,"
        " pass allow_other_machine=True.",
    )
